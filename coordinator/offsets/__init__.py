"""Commands and events about offsets, committed and transactional, for groups of every kind."""
