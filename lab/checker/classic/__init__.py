"""The checker of classic groups: their stored events folded once more, and what Kafka's rules say of each."""
