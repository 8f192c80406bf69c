"""Reads and writes values as people write them: durations, addresses, partitions, YAML without repeated keys."""
