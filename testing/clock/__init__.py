"""The loops and clocks of emulators, and turning a clock by hand."""
