"""Small groups: how many times as long as Apache Kafka's own classes, warm, our assignors take.

    .venv/bin/python benchmarks/beside_java.py [3x1x12 ...]        members x topics x partitions

Java 17 runs `WarmAssignors.java` with the kafka-clients that tests/clients/others/pom.xml names, which Maven fetches.
All members subscribe to everything; "leaves" is after the first of them has left the fresh assignment. Both sides read
the user data. Figures are medians of processor time, without Java's collector and compiler, which have threads of
their own. The aim is a ratio of at most 10.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from assignors import Kind, Shape, group, ours
from regroup.assignors.registry import assignor_named

HERE = Path(__file__).parent
POM = HERE.parent / "tests" / "clients" / "others" / "pom.xml"
SMALL = ("3x1x12", "5x1x30", "10x1x100", "5x3x10", "10x10x10")
BLOCKS, COUNTED, BLOCK_S = 20, 5, 0.05
LINE = "{:<20}{:<10}{:<8}{:>10}{:>12}{:>8}"


def java(shapes: list[str]) -> list[tuple[str, str, str, float]]:
    """Assignor, shape, phase and microseconds of each."""
    with tempfile.TemporaryDirectory() as jars:
        fetch = [
            "mvn",
            "-q",
            "-B",
            "-Dstyle.color=never",
            "-f",
            POM,
            "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}",
        ]
        subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL)
        command = ["java", "-cp", f"{jars}/*", HERE / "WarmAssignors.java", *shapes]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    return [(name, shape, phase, float(nanoseconds) / 1000) for name, shape, phase, nanoseconds in rows]


def microseconds(name: str, shape: str, phase: str) -> float:
    """Of ours, where Java did the same."""
    assignor = assignor_named(name)
    sizes, own = group(Shape(*map(int, shape.split("x"))), Kind.EQUAL)
    assign = ours(assignor, sizes, own, {})
    if phase == "leaves":
        had = assign()
        assign = ours(assignor, sizes, dict(list(own.items())[1:]), had)
    return statistics.median([block(assign) for _ in range(BLOCKS)][-COUNTED:])


def block(assign: Callable[[], object]) -> float:
    """As in the Java program: calls for a twentieth of a second, and their processor time."""
    calls, start, began = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() - start < BLOCK_S:
        assign()
        calls += 1
    return (time.thread_time() - began) / calls * 1e6


def main() -> None:
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        print(f"Not measured beside Java: there is no {' and no '.join(missing)}.")
        return
    print(LINE.format("microseconds", "group", "phase", "ours", "Java, warm", "ratio"))
    for name, shape, phase, warm in java(sys.argv[1:] or list(SMALL)):
        own = microseconds(name, shape, phase)
        print(LINE.format(name, shape, phase, f"{own:,.1f}", f"{warm:,.1f}", f"{own / warm:.1f}"), flush=True)


if __name__ == "__main__":
    main()
