"""A partition's log: validation of records, the log in memory, the state of its producers."""
