"""Refused requests of group members: found in the responses, counted, and reported to log, MQTT and lab."""
