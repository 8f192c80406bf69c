"""Formats the output of `regroup members`: a live table of the members, or a line for each change of a member."""

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from regroup.cli.terminal.text import printable, shorten_uuids
from regroup.members.consumer.effects import (
    CommitCompleted,
    ConsumerChange,
    ConsumerError,
    JoinedGroup,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.application import MemberView
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote, RequestRefused
from regroup.members.runtime.workload import RecordCounts
from regroup.notation.durations import format_duration
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import TopicPartition

NUMBERS: Final = ("generation", "processed", "twice")


def members_table(views: Sequence[MemberView], counts: RecordCounts) -> Table:
    """A table with a row for each member. Columns in which all cells are empty are left out, so that 80 characters are
    enough."""
    caption = (
        f"{counts.processed} records processed, {counts.duplicates} twice, {counts.late} late, {counts.skipped} skipped"
    )
    table = Table(caption=caption if counts.processed else None, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    rows = [_cells(view) for view in views]
    headings = [heading for heading in rows[0] if any(row[heading] not in ("", "0") for row in rows)] if rows else []
    for heading in headings:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left", no_wrap=heading == "phase")
    for row in rows:
        table.add_row(*(Text(printable(row[heading])) for heading in headings))
    return table


def _cells(view: MemberView) -> dict[str, str]:
    return {
        "member": view.name,
        "generation": str(view.generation_id) if view.generation_id >= 0 else "–",
        "phase": (view.condition or view.state.value) + (" (leader)" if view.is_leader and not view.condition else ""),
        "partitions": format_partitions(view.partitions) or "–",
        "processed": str(view.processed_count),
        "twice": str(view.duplicate_count),
        "last error": view.last_error,
    }


def describe_change(change: ConsumerChange | ConsumerError, owned: Sequence[TopicPartition] = ()) -> str:
    """A change of a member as text that begins with the verb; empty for changes that are not shown.

    `owned` are the partitions of the member after the change.
    """
    owns = f"owns {format_partitions(owned) or 'nothing'}"
    match change:
        case JoinedGroup(generation, member_id, is_leader):
            return f"joined generation {generation} as {shorten_uuids(member_id)}" + (" (leader)" if is_leader else "")
        case PartitionsAssigned(partitions) if set(partitions) == set(owned):
            return f"was assigned {format_partitions(partitions) or 'nothing'}"
        case PartitionsAssigned(partitions):
            return f"was given {format_partitions(partitions) or 'nothing new'}, and {owns}"
        case PartitionsRevoked(partitions):
            return f"revoked {format_partitions(partitions) or 'nothing'}, and {owns}"
        case PartitionsLost(partitions):
            return f"lost {format_partitions(partitions)}"
        case CommitCompleted(_, ConsumerError() as error, _):
            return f"could not commit: {error}"
        case LeftGroup(reason):
            return f"left: {reason}"
        case ConsumerError():
            return f"failed in poll(): {change}"
        case _:
            return ""


def describe_note(note: MemberNote) -> str:
    """A refused request, or a fault that begins or ends, as text that begins with the verb."""
    match note:
        case RequestRefused(api, error):
            return f"was refused: its {api} was answered {error}"
        case FaultBegan(fault):
            return _describe_fault(fault)
        case FaultEnded("zombie"):
            return "wakes as a zombie: it reads and commits for its old generation"
        case FaultEnded("restarting"):
            return "starts again as a new process"
        case FaultEnded():
            return "goes on after its pause"


def _describe_fault(fault: MemberFault) -> str:
    duration = format_duration(fault.duration_ms or 0)
    match fault.kind:
        case MemberFaultKind.CRASH:
            return "crashed: it sends nothing from now on, and does not leave the group"
        case MemberFaultKind.PAUSE:
            return f"pauses for {duration}, as in a long garbage collection"
        case MemberFaultKind.LEAVE:
            return "closes its consumer"
        case MemberFaultKind.ZOMBIE:
            return "falls silent for twice its session timeout"
        case MemberFaultKind.RESTART:
            return f"was killed, and starts again in {duration}"
        case MemberFaultKind.RESTART_AS_STRANGER:
            return f"was killed, and starts again in {duration} without its group instance id"
        case _:
            return f"has the fault {fault.kind.value} from now on" + (
                f", for {duration} each time" if fault.kind.takes_duration else ""
            )
