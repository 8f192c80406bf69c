"""What the store holds: the groups that its records add up to, and invariants that compare them with others."""
