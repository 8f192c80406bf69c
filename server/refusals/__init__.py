"""Refused requests of group members: found in the responses, counted, and told to the log, MQTT and the lab."""
