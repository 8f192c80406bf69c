"""A partition's records: validation, the log in memory, the state of its producers."""
