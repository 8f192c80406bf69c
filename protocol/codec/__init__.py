"""The codec: functions that encode and decode one version of a message, compiled from its class."""
