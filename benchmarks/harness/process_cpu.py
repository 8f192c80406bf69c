"""CPU seconds of a process and of all processes that it started, as Linux counts them below /proc."""

import os
from pathlib import Path


def tree_cpu_s(root: int | None = None) -> float:
    """CPU seconds so far of a process (by default this one), its children, their children, and so on."""
    root = os.getpid() if root is None else root
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        # Its own user and system time, and that of its children which have ended.
        parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    return sum(ticks[each] for each in ticks if is_below(each, root, parents)) / os.sysconf("SC_CLK_TCK")


def is_below(process: int, root: int, parents: dict[int, int]) -> bool:
    """Whether `process` is `root`, or was started by it or by one of its descendants."""
    while process not in (0, root):
        process = parents.get(process, 0)
    return process == root
