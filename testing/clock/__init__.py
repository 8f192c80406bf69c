"""The event loops and clocks of emulators, and clocks that a test turns by hand."""
