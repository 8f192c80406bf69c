"""What the server, the members and the command line need to use MQTT: connection, broker address, topic names."""
