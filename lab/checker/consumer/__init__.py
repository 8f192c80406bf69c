"""The checker of groups of the consumer protocol (KIP-848): what it knows of them, its rules and its invariants."""
