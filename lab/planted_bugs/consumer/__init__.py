"""Bugs in groups of the consumer protocol (KIP-848) and in groups with members of both protocols."""
