"""The full-screen view of `regroup step`: lines of text drawn from values, and the keys that move through a history."""
