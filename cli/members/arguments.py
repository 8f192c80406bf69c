"""Run simulated consumers against the emulator or a real Kafka, and inject faults into some of them.

regroup members --bootstrap localhost:9092 --group payments --topic orders --count 5
regroup members --bootstrap localhost:9092 --group payments --topic orders --count 3 \\
        --fault 2:pause:60s@20s --fault 3:crash@30s --records-per-s 200 --for 2m
regroup members --mqtt mqtt://localhost:1883 --group payments --topic orders --mqtt-control

Faults, each as NUMBER:FAULT, or all:FAULT, and with @WHEN behind it if need be:
  pause:20s, crash, leave, zombie, restart:5s, restart-as-stranger:5s, no-poll:60s, slow-join:5s, slow-sync:5s,
  never-sync, assignor-fails, assignor-forgets, assignor-doubles; slow-revoke:5s in the consumer protocol
WHEN is a time after the start (@30s) or a milestone: @after-joined, @after-elected, @after-assigned, @after-revoked,
@after-lost, each with +TIME if need be (@after-assigned+5s).

In a cluster that is not regroup's the members join a new group only, and write no records, unless --yes is given: in an
existing group they would take partitions from its consumers and commit offsets.

Ctrl-C lets the members leave the group. Exit codes: 0 all members ended well, 1 one failed for good or none ever
joined, 2 the command cannot be carried out.
"""

import re
from argparse import ArgumentParser

from regroup.cli.terminal.arguments import (
    add_mqtt_settings_argument,
    argument_type,
    duration_ms,
    loaded_type,
    mqtt_address,
    whole_number,
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments: brokers and topics, members and their faults, MQTT, the workload, and timeouts."""
    parser.description = __doc__
    parser.set_defaults(job="regroup.cli.members.command:run")
    _add_group_and_topics(parser)
    _add_members(parser)
    _add_mqtt(parser)
    _add_workload(parser)
    add = parser.add_argument
    add("--session-timeout", metavar="TIME", type=duration_ms, help="of the classic protocol (default: 45s)")
    add("--heartbeat-interval", metavar="TIME", type=duration_ms, help="of the classic protocol (default: 3s)")
    add("--max-poll-interval", metavar="TIME", type=duration_ms, default=300_000, help="(default: 5m)")


def _add_group_and_topics(parser: ArgumentParser) -> None:
    add = parser.add_argument
    brokers = parser.add_mutually_exclusive_group(required=True)
    bootstrap = loaded_type("regroup.members.transports.tcp:parse_bootstrap")
    brokers.add_argument("--bootstrap", metavar="HOST:PORT", type=bootstrap, help="brokers, with commas")
    brokers.add_argument("--mqtt", metavar="URL", type=mqtt_address, help="join over this MQTT broker instead")
    add("--group", required=True, help="the group's id")
    yes_help = "join an existing group, or write records, also in a cluster that is not regroup's"
    add("--yes", action="store_true", help=yes_help)
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", action="append", default=[], help="a topic; may be repeated")
    topics.add_argument("--topic-pattern", type=pattern, help="all topics whose whole name matches")


def _add_members(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--count", type=whole_number(1), default=3, help="how many members (default: 3)")
    add(
        "--group-protocol",
        choices=("classic", "consumer"),
        default="classic",
        help="with consumer the coordinator assigns, and its settings have session timeout and heartbeat interval "
        "(KIP-848; default: classic)",
    )
    add(
        "--assignor",
        metavar="NAME",
        dest="assignors",
        type=loaded_type("regroup.cli.members.fleet:known_assignor"),
        action="append",
        help="the members' assignor; repeated, in the order of preference (default: cooperative-sticky)",
    )
    add(
        "--remote-assignor",
        metavar="NAME",
        help="the assignor of the coordinator, in the consumer protocol: uniform, range, or one that the brokers have "
        "besides (group.remote.assignor; default: the coordinator decides)",
    )
    add("--static", action="store_true", help="give every member a group.instance.id")
    add(
        "--fault",
        metavar="N:FAULT",
        dest="faults",
        type=loaded_type("regroup.cli.members.fleet:parse_numbered_fault"),
        action="append",
        default=[],
        help="inject a fault into member N, or into all; may be repeated",
    )
    add("--every", metavar="TIME", type=duration_ms, default=0, help="the time between the starts of two members")
    add("--for", metavar="TIME", dest="for_ms", type=duration_ms, help="stop after, for example, 30s")


def _add_mqtt(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_mqtt_settings_argument(parser)
    add(
        "--mqtt-name",
        metavar="NAME",
        help="the members' names on MQTT, with -1, -2, … behind (default: this machine's name and the process number)",
    )
    add(
        "--mqtt-control",
        action="store_true",
        help="let every client of the MQTT broker send crash, pause 20s, slow 5s, leave or rejoin to a member",
    )


def _add_workload(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--records-per-s", type=float, default=0.0, help="write so many records into each topic (default: none)")
    add("--keys", type=int, default=0, help="with so many different keys (default: none, round robin)")
    add("--process-ms", type=float, default=0.0, help="the time a member takes to process a record (default: 0)")
    add(
        "--late-after",
        metavar="TIME",
        type=duration_ms,
        default=10_000,
        help="a record counts as late if it is processed so long after it was written (default: 10s)",
    )
    add(
        "--from",
        dest="auto_offset_reset",
        choices=("earliest", "latest"),
        default="latest",
        help="where to begin without offsets (default: latest)",
    )


@argument_type
def pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"invalid regular expression: {text!r}: {error}") from None
