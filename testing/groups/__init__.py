"""The handle of a group in an emulator: a test looks at the group, waits for it, and acts on it."""
