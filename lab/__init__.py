"""Simulations of consumer groups in virtual time: faults drawn from one seed, checked by invariants."""
