"""Measures `regroup step` on long histories: seconds to open, and milliseconds of a step, of this process' own time.

python -m tests.cli.classroom.measure_step
"""

import asyncio
import random
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from regroup.classroom.languages import Language
from regroup.cli.classroom.step import prepared
from regroup.cli.classroom.step_view.screen import screen_lines
from tests.cli.classroom.long_store import write_long_store

STEPS = 500


def measure(store: Path, least_events: int) -> str:
    """One line about a store with so many events."""
    events = write_long_store(store, least_events)
    began_s = time.process_time()
    app = asyncio.run(prepared(Namespace(store=store, group=None, at=None, language=Language.ENGLISH)))
    opened_s = time.process_time() - began_s
    draw, steps_ms = random.Random(1), []
    for _ in range(STEPS):
        began_s = time.process_time()
        app.group.index = draw.randrange(events)
        screen_lines(app.shown, 80, 24)
        steps_ms.append((time.process_time() - began_s) * 1000)
    ordered = sorted(steps_ms)
    median_ms, high_ms = ordered[STEPS // 2], ordered[STEPS * 95 // 100]
    return f"{events:,} events: open {opened_s:.2f} s, a step {median_ms:.2f} ms (95th percentile {high_ms:.2f} ms)"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for least_events in (1_000, 10_000, 100_000):
            print(measure(Path(folder) / f"{least_events}.db", least_events))


if __name__ == "__main__":
    main()
