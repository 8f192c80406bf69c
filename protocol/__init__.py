"""Kafka's words and bytes: error codes, messages, frames, the consumer protocol. No group, no socket, no clock."""
