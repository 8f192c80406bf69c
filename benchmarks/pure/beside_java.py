"""Small groups: how many times as long as Apache Kafka's own classes, warm, the assignors take.

    .venv/bin/python benchmarks/pure/beside_java.py [3x1x12 ...]        members x topics x partitions

Java 17 runs `../peers/WarmAssignors.java` with the kafka-clients of tests/clients/others/pom.xml, which Maven fetches.
All members subscribe to every topic; "leaves" is the assignment after the first of them has left the fresh one. Both
sides decode the user data. Figures are medians of CPU time, without Java's collector and compiler, which have threads
of their own. The aim is a ratio of at most 10.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from assignors import Shape, SubscriptionKind, make_group, prepare_regroup
from regroup.assignors.registry import assignor_named

FOLDER = Path(__file__).parent
POM = FOLDER.parents[1] / "tests" / "clients" / "others" / "pom.xml"
DEFAULT_SHAPES = ("3x1x12", "5x1x30", "10x1x100", "5x3x10", "10x10x10")
BLOCKS, COUNTED_BLOCKS, BLOCK_S = 20, 5, 0.05
LINE = "{:<20}{:<10}{:<8}{:>10}{:>12}{:>8}"


def measure_java(shapes: list[str]) -> list[tuple[str, str, str, float]]:
    """Run the Java program; returns the assignor, shape, phase and microseconds of each assignment."""
    with tempfile.TemporaryDirectory() as jars:
        maven = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", POM]
        copy_jars = [*maven, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(copy_jars, check=True, stdout=subprocess.DEVNULL)
        command = ["java", "-cp", f"{jars}/*", FOLDER.parent / "peers" / "WarmAssignors.java", *shapes]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [line.split() for line in output.splitlines()]
    return [(name, shape, phase, float(nanoseconds) / 1000) for name, shape, phase, nanoseconds in rows]


def measure_regroup(name: str, shape: str, phase: str) -> float:
    """Microseconds that regroup takes for the same assignment."""
    assignor = assignor_named(name)
    partition_counts, subscriptions = make_group(Shape(*map(int, shape.split("x"))), SubscriptionKind.EQUAL)
    assign = prepare_regroup(assignor, partition_counts, subscriptions, {})
    if phase == "leaves":
        assign = prepare_regroup(assignor, partition_counts, dict(list(subscriptions.items())[1:]), assign())
    return statistics.median([time_block(assign) for _ in range(BLOCKS)][-COUNTED_BLOCKS:])


def time_block(assign: Callable[[], object]) -> float:
    """CPU microseconds of one call: the mean of calls for a twentieth of a second, as in the Java program."""
    calls, started, cpu_started = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() - started < BLOCK_S:
        assign()
        calls += 1
    return (time.thread_time() - cpu_started) / calls * 1e6


def main() -> None:
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        print(f"Not measured beside Java: there is no {' and no '.join(missing)}.")
        return
    print(LINE.format("microseconds", "group", "phase", "regroup", "Java, warm", "ratio"))
    for name, shape, phase, java_us in measure_java(sys.argv[1:] or list(DEFAULT_SHAPES)):
        regroup_us = measure_regroup(name, shape, phase)
        ratio = f"{regroup_us / java_us:.1f}"
        print(LINE.format(name, shape, phase, f"{regroup_us:,.1f}", f"{java_us:,.1f}", ratio), flush=True)


if __name__ == "__main__":
    main()
