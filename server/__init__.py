"""The brokers around the group coordinator: connections, APIs, topics, partition logs, transactions, MQTT."""
