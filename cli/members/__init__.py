"""`regroup members`: simulated consumers against any broker, over TCP or MQTT."""
