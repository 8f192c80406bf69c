"""The emulator on MQTT: the feed of its events, members from afar, and who died."""
