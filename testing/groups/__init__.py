"""A group of an emulator: how a test sees it, waits for it, and acts on it."""
