"""What carries the requests of members to brokers: TCP, or messages of an MQTT broker."""
