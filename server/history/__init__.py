"""The history in a store: its verification, and the snapshots before a trim."""
