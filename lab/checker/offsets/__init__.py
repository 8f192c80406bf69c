"""The rules about committed offsets and transactions: what may change, what has to expire, and which outcome is due."""
