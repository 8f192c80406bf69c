"""Assign partitions as Kafka's assignors do, or choose them for records as its producers do; no broker is needed.

regroup assign cases.jsonl                               one line of JSON for each case
regroup assign cases.jsonl --explain --id two-topics     which member got what and why, as text
regroup assign --records orders.txt --partitions 6       the partition of each record, by each partitioner
regroup assign --records orders.txt --queues 8,0,0 --partitioner BuiltInPartitioner --json

The file of --records is a table with a heading, or JSON Lines with the same names; all columns may be left out:
  key    size  partition  count
  anna   120   -          1        (a key; its size is in bytes, 100 if left out)
  -      120   2          1        (an explicit partition)
  -      500   -          20       (twenty records with neither)
"""

from argparse import ArgumentParser
from typing import Final

from regroup.cli.terminal.arguments import argument_type, setting, whole_number

MAX_PARTITIONS: Final = 10_000
PARTITIONERS: Final = (
    "BuiltInPartitioner",
    "DefaultPartitioner",
    "DefaultPartitioner-before-2.4",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
)
"""The names of the partitioners in regroup.members.partitioners.PARTITIONER_CLASSES, which takes long to load."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    parser.set_defaults(job="regroup.cli.assign.cases:run")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", metavar="FILE", nargs="?", help="cases as JSON Lines; - is standard input")
    source.add_argument("--records", metavar="FILE", help="records of a producer; - is standard input")

    add = parser.add_argument_group("cases").add_argument
    add(
        "--algorithm",
        choices=("today", "before-2.6"),
        default="today",
        help="which `sticky`: today's, or that of Kafka before 2.5.1 and 2.6, as in textbooks (default: today)",
    )
    add("--explain", action="store_true", help="explain one case: which member got what and why, and what moved")
    add("--id", help="the case to explain (default: the first)")

    add = parser.add_argument_group("records").add_argument
    add("--partitions", metavar="N", type=whole_number(1, MAX_PARTITIONS), help="partitions of the topic (default: 3)")
    add(
        "--partitioner",
        metavar="NAME",
        dest="partitioners",
        choices=PARTITIONERS,
        action="append",
        help=f"only this one; may be repeated: {', '.join(PARTITIONERS)}",
    )
    add(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        type=setting,
        action="append",
        default=[],
        help="a setting of the producer: batch.size, partitioner.ignore.keys, partitioner.adaptive.partitioning.enable",
    )
    add(
        "--queues",
        metavar="N,N,...",
        type=queues,
        help="batches that wait for each partition: BuiltInPartitioner chooses short queues more often",
    )
    add("--seed", metavar="N", type=whole_number(0), default=1, help="the seed of random choices (default: 1)")
    add("--json", action="store_true", help="one line of JSON for each record, in place of tables")


@argument_type
def queues(text: str) -> tuple[int, ...]:
    """Parse the lengths of a producer's queues, one for each partition, separated by commas."""
    numbers = text.split(",")
    if not all(each.isascii() and each.isdigit() for each in numbers) or len(numbers) > MAX_PARTITIONS:
        raise ValueError(f"invalid queues: {text!r}; give a number for each partition, as in 8,0,0")
    return tuple(map(int, numbers))
