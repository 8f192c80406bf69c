"""What other processes play in the tests of hunting; they have to find it in a module."""

import os
import signal

from regroup.lab.search.trial import Finding


def thirteens(seed: int) -> Finding | None:
    """Every thirteenth seed fails, of one thing or of another."""
    return Finding(seed, "Odd." if seed % 2 else "Even.", f"seed {seed}") if seed % 13 == 0 else None


def never(seed: int) -> Finding | None:
    return None


def interrupted_at_20(seed: int) -> Finding | None:
    if seed == 20:
        os.kill(os.getppid() if os.environ.get("HUNTED") else os.getpid(), signal.SIGINT)
    return thirteens(seed)
