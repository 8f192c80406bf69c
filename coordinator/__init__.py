"""The group coordinator: the pure functions `decide` and `evolve`, and GroupCoordinator, which runs them with a journal
and timers.
"""
