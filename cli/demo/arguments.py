"""Watch a consumer group through the crash of a consumer and a crash of its coordinator, in half a minute.

  regroup demo

Three Kafka clients (librdkafka) share a topic of seven partitions. One of them is killed; then the coordinator is
killed, and recovers the group from the history that it wrote to SQLite.
"""

from argparse import ArgumentParser
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    parser.set_defaults(
        job="regroup.cli.demo.command:run", packages=("confluent_kafka",), install="pip install confluent-kafka"
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        default=Path("demo"),
        help="where the history goes; that of an earlier demo is replaced (default: demo)",
    )
