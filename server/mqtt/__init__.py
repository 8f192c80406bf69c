"""The brokers on MQTT: the feed of events, summaries of groups, remote clients, and the losses of their connections."""
