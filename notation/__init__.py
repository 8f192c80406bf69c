"""Reads and writes values in the form that people use: durations, partitions, and YAML files without repeated keys."""
