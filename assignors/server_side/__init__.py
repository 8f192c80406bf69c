"""The coordinator's assignors for groups of the consumer protocol (KIP-848): `range` and `uniform`."""
