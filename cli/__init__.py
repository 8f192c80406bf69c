"""Words typed at a prompt."""
