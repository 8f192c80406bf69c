"""A consumer as a pure machine, its habits, and the transports that carry it."""
