"""What the programs in Python share: the order that they get, the lines that they print, and what a record says."""

import json
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple


class Order(NamedTuple):
    """What a program has to do: one line of JSON on standard input, which comes when the program has loaded."""

    servers: str
    group: str
    topic: str
    client_id: str
    instance_id: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    request_timeout_ms: int
    commit_interval_ms: int


def report(what: str, **details: object) -> None:
    """Print one line of JSON."""
    print(json.dumps({"what": what, "at_ms": time.time_ns() // 1_000_000, **details}), flush=True)


def report_error(where: str, error: BaseException | object) -> None:
    """An error that a call of the library has raised, or that it has given to a callback."""
    report("raised", where=where, error=type(error).__name__, message=str(error)[:200])


def take_order(library: str, version: str) -> Order:
    """Say that the program has loaded, and wait for the order."""
    runtime = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    report("ready", library=library, version=version, runtime=runtime)
    return Order(**json.loads(sys.stdin.readline()))


def report_settings(settings: dict[str, Any], *, hidden: Iterable[str] = ()) -> None:
    """The settings that the library gets, without those that differ in each run."""
    shown = {name: value for name, value in settings.items() if name not in hidden and not callable(value)}
    report("settings", settings=shown)


class Positions:
    """The last record of each partition: reports where reading began, and which records are read again or skipped."""

    def __init__(self, commit_interval_ms: int) -> None:
        self._interval_s = commit_interval_ms / 1000
        self._committed_at = time.monotonic()
        self._last: dict[int, int] = {}
        self._is_uncommitted = False

    def read(self, partition: int, offset: int) -> None:
        last = self._last.get(partition)
        if last is None:
            report("began", partition=partition, offset=offset)
        elif offset <= last:
            report("read-again", partition=partition, offset=offset)
        elif offset > last + 1:
            report("skipped", partition=partition, offset=offset)
        self._last[partition] = offset
        self._is_uncommitted = True

    def take_commit(self) -> bool:
        """Whether records were read and the interval is over; the answer counts as a commit."""
        if not self._is_uncommitted or time.monotonic() - self._committed_at < self._interval_s:
            return False
        self._committed_at, self._is_uncommitted = time.monotonic(), False
        return True
