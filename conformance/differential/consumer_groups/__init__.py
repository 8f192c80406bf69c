"""Random courses whose members speak the consumer protocol, and change to the classic one and back."""
