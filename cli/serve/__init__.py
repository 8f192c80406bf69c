"""`regroup serve`: runs the emulator as a process, with its log, its settings, MQTT, and commands on standard input."""
