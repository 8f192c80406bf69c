"""The history in a store: its verification, and the snapshots that are needed before old events are trimmed."""
