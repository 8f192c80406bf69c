"""The checker of a run: invariants of coordinators and members, and what a run counts."""
