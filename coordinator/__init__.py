"""The group coordinator: `decide` and `evolve` without input or output, and GroupCoordinator, which runs them."""
