"""What server, members and the command line share of MQTT: connection, addresses, topic names."""
