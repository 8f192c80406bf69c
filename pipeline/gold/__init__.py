"""Gold: each group's events folded into tables, and the coordinator's invariants checked on the way."""
