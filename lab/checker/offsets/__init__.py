"""The rules about offsets that have to expire, and about transactions whose outcome is stored."""
