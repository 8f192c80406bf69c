"""Rounds of measurements beside Kafka: a file that collects them over several calls, and the rows that they make."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TypeAlias

from harness.load_client import Measurement

Round: TypeAlias = dict[str, Measurement]
"""The figures of each server in one round, by its name."""


def add_round(file: Path | None, workload: str, measured: Round) -> None:
    """Append a round to the file, if there is one."""
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps({"workload": workload, "servers": measured}) + "\n")


def rounds_in(file: Path) -> dict[str, list[Round]]:
    """The rounds of each workload, in the order in which they were measured first."""
    found: dict[str, list[Round]] = {}
    for line in file.read_text().splitlines():
        entry = json.loads(line)
        measured = {name: Measurement(*fields) for name, fields in entry["servers"].items()}
        found.setdefault(entry["workload"], []).append(measured)
    return found


def row_of(workload: str, rounds: Sequence[Round]) -> str:
    """The medians of each server over its rounds. A ratio is the median of those within the rounds, with its spread."""
    names = list(dict.fromkeys(name for each in rounds for name in each))
    lines = [f"{workload}, {len(rounds)} rounds"]
    for name in names:
        shown = Measurement(*map(median, zip(*[each[name] for each in rounds if name in each], strict=True)))
        lines.append(
            f"  {name:8}{shown.per_second:9,.0f} /s   p50 {shown.median_us / 1000:7.2f} ms"
            f"   p99 {shown.p99_us / 1000:7.2f} ms   server {shown.server_cpu_us:6.1f} us"
            f"   client {shown.client_load:4.0%}{_beside(name, 'kafka', rounds)}"
            f"{_beside(name, 'process', rounds) if name in ('again', 'disk') else ''}"
        )
    return "\n".join(lines)


def _beside(name: str, other: str, rounds: Sequence[Round]) -> str:
    """The ratio of requests a second to those of another server; empty if no round has both."""
    ratios = sorted(each[name].per_second / each[other].per_second for each in rounds if name in each and other in each)
    if name == other or not ratios:
        return ""
    return f"   / {other} {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
