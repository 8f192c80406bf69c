"""`regroup members`: runs simulated consumers against any broker, over TCP or MQTT."""
