"""A consumer of the classic group protocol as a state machine without I/O; `machine.py` is its entry."""
