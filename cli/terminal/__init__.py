"""What all commands use at the terminal: argument types, output, consoles, progress, text and signals."""
