"""`regroup chaos`: simulations of faults from a seed or a scenario, hunts, and planted bugs."""
