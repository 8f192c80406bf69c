"""What `regroup members` shows: a live table of the members, or a line for everything that happens to one."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from regroup.cli.terminal.text import partitions_text, printable
from regroup.members.consumer.effects import (
    Change,
    CommitEnded,
    ConsumerError,
    JoinedGroup,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.runtime.application import MemberView
from regroup.members.runtime.workload import Tally


def table(views: Sequence[MemberView], tally: Tally) -> Table:
    """One row a member; the caption counts the records."""
    caption = f"{tally.processed} records processed, {tally.twice} twice, {tally.late} late, {tally.skipped} skipped"
    drawn = Table(caption=caption)
    for heading in ("member", "id", "generation", "phase", "partitions", "processed", "twice", "last error"):
        drawn.add_column(heading, justify="right" if heading in ("generation", "processed", "twice") else "left")
    for view in views:
        drawn.add_row(*(Text(printable(cell)) for cell in _cells(view)))
    return drawn


def _cells(view: MemberView) -> tuple[str, ...]:
    return (
        view.name,
        view.member_id[-8:] or "–",
        str(view.generation) if view.generation >= 0 else "–",
        (view.condition or view.phase.value) + (" (leader)" if view.is_leader and not view.condition else ""),
        partitions_text(view.partitions) or "–",
        str(view.processed),
        str(view.twice),
        view.last_error,
    )


def line_about(happening: Change | ConsumerError) -> str:
    """A sentence that begins with the verb; empty for what is not worth a line."""
    match happening:
        case JoinedGroup(generation, member_id, is_leader):
            return f"joined generation {generation} as {member_id}" + (", and leads" if is_leader else "")
        case PartitionsAssigned(partitions):
            return f"was assigned {partitions_text(partitions) or 'nothing new'}"
        case PartitionsRevoked(partitions):
            return f"gave up {partitions_text(partitions) or 'nothing'}"
        case PartitionsLost(partitions):
            return f"lost {partitions_text(partitions)}"
        case CommitEnded(_, ConsumerError() as error, _):
            return f"could not commit: {error}"
        case LeftGroup(reason):
            return f"left: {reason}"
        case ConsumerError():
            return f"failed in poll(): {happening}"
        case _:
            return ""
