"""MQTT as the server, the members and the command line use it: connection, broker address, topic names."""
