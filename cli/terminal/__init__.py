"""Shared by the commands: argument types, output, consoles, progress, text and signals."""
