"""Recorded exchanges of clients and brokers: kept as bytes and times, and decoded when they are read."""
