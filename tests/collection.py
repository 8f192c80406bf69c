"""In which order a process collects the tests, when several processes collect all of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest


def begin_elsewhere(config: pytest.Config) -> None:
    """Let each process of several begin its collection with another part of the tests, where none are named.

    The first process that comes to a file compiles it, with its assertions, for all others. If they all began at the
    same file, each of them would compile every file of a clean clone.
    """
    worker = getattr(config, "workerinput", None)
    if not worker or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number, processes = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    config.args = [
        argument for folder in config.args for argument in rotated(parts_of(Path(folder)), number, processes)
    ]


def parts_of(folder: Path) -> list[tuple[str, int]]:
    """The folders and files with tests in `folder`, in order, each with its number of files."""
    counts = ((path, files_of(path)) for path in sorted(folder.iterdir()))
    return [(str(path), count) for path, count in counts if count]


def files_of(path: Path) -> int:
    if path.is_dir():
        return sum(1 for _ in path.rglob("test_*.py"))
    return path.match("test_*.py")


def rotated(parts: Sequence[tuple[str, int]], number: int, processes: int) -> list[str]:
    """The names of all parts, beginning with the one that holds the first file of share `number` of `processes`."""
    first_file, before = sum(count for _, count in parts) * number // processes, 0
    for index, (_, count) in enumerate(parts):
        before += count
        if before > first_file:
            return [name for name, _ in (*parts[index:], *parts[:index])]
    return [name for name, _ in parts]
