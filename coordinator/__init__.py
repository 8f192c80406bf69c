"""The group as a pure machine, and the asyncio GroupCoordinator that drives it."""
