"""One group's history as pictures, and as sentences. Everything is derived from stored events."""
