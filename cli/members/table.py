"""The output of `regroup members`: a live table of the members, or a line for each change of one."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from regroup.cli.terminal.text import format_partitions, printable
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
from regroup.members.runtime.application import MemberView
from regroup.members.runtime.workload import RecordCounts


def members_table(views: Sequence[MemberView], counts: RecordCounts) -> Table:
    """Draw a row for each member; the caption counts the records."""
    caption = (
        f"{counts.processed} records processed, {counts.duplicates} twice, {counts.late} late, {counts.skipped} skipped"
    )
    table = Table(caption=caption)
    for heading in ("member", "id", "generation", "phase", "partitions", "processed", "twice", "last error"):
        table.add_column(heading, justify="right" if heading in ("generation", "processed", "twice") else "left")
    for view in views:
        table.add_row(*(Text(printable(cell)) for cell in _cells(view)))
    return table


def _cells(view: MemberView) -> tuple[str, ...]:
    return (
        view.name,
        view.member_id[-8:] or "–",
        str(view.generation_id) if view.generation_id >= 0 else "–",
        (view.condition or view.state.value) + (" (leader)" if view.is_leader and not view.condition else ""),
        format_partitions(view.partitions) or "–",
        str(view.processed_count),
        str(view.duplicate_count),
        view.last_error,
    )


def describe_change(change: ConsumerChange | ConsumerError) -> str:
    """Describe a change of a member, beginning with the verb; empty for changes that are not shown."""
    match change:
        case JoinedGroup(generation, member_id, is_leader):
            return f"joined generation {generation} as {member_id}" + (" (leader)" if is_leader else "")
        case PartitionsAssigned(partitions):
            return f"was assigned {format_partitions(partitions) or 'nothing new'}"
        case PartitionsRevoked(partitions):
            return f"revoked {format_partitions(partitions) or 'nothing'}"
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
