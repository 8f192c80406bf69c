"""Gold: each group's events folded into tables, and the coordinator's invariants as Spark SQL over them."""
