"""Functions for hunts in tests; other processes import them from this module."""

import os
import signal

from regroup.lab.search.seed_run import Finding


def fails_every_13th(seed: int) -> Finding | None:
    """Every thirteenth seed fails, with one of two sentences."""
    return Finding(seed, "Odd." if seed % 2 else "Even.", f"seed {seed}") if seed % 13 == 0 else None


def never_fails(seed: int) -> Finding | None:
    return None


def interrupts_at_20(seed: int) -> Finding | None:
    if seed == 20:
        os.kill(os.getppid() if os.environ.get("IN_CHILD_PROCESS") else os.getpid(), signal.SIGINT)
    return fails_every_13th(seed)
