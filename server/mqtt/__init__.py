"""The brokers on MQTT: the feed of events, group summaries, remote clients, and losses of their connections."""
