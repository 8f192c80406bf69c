"""The four parts in the middle of the screen: state, members, clocks and partitions."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from regroup.classroom.kinds import READERS, AnyGroupState
from regroup.classroom.languages import Language
from regroup.classroom.moment_view import ClockAtMoment, MemberAtMoment, MemberPhase, MomentView
from regroup.classroom.phrases.known_texts import FOLLOWS, known_text
from regroup.classroom.phrases.phrase import in_language, phrase
from regroup.classroom.timeline import ArmedDeadline, PartitionSpan
from regroup.classroom.wording import partitions_text
from regroup.cli.classroom.step_view.cells import filled, fit, rule, window, wrap
from regroup.cli.classroom.step_view.shown import Shown
from regroup.cli.terminal.text import printable
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.consumer_group import ConsumerGroupState
from regroup.coordinator.group import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupState, MemberId
from regroup.notation.partitions import format_ranges
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.explanation.sentences import duration_text

STATE_ROWS: Final = 1 + max(len(each.states) for each in READERS.values())
STATE_STYLES: Final = {
    ConsumerGroupState.ASSIGNING: "yellow",
    ConsumerGroupState.RECONCILING: "yellow",
    GroupState.STABLE: "green",
    GroupState.PREPARING_REBALANCE: "yellow",
    GroupState.COMPLETING_REBALANCE: "yellow",
}
PHASE_STYLES: Final = {
    MemberPhase.ASSIGNED: "green",
    MemberPhase.STABLE: "green",
    MemberPhase.UNREVOKED_PARTITIONS: "bold yellow",
    MemberPhase.UNRELEASED_PARTITIONS: "bold yellow",
    MemberPhase.JOIN_EXPECTED: "bold yellow",
    MemberPhase.SYNC_EXPECTED: "bold yellow",
}
PHASES: Final = {
    MemberPhase.JOIN_HELD: "join-held",
    MemberPhase.SYNC_HELD: "sync-held",
    MemberPhase.JOIN_EXPECTED: "join-expected",
    MemberPhase.SYNC_EXPECTED: "sync-expected",
    MemberPhase.ASSIGNED: "assigned",
    MemberPhase.STABLE: "stable",
    MemberPhase.UNREVOKED_PARTITIONS: "unrevoked",
    MemberPhase.UNRELEASED_PARTITIONS: "unreleased",
    MemberPhase.UNKNOWN: "unknown",
    MemberPhase.AWAY: "away",
}
LEADER: Final = "★"
CLOCK_NAMES: Final = {
    DeadlineKind.JOIN_PHASE: "join",
    DeadlineKind.SYNC_PHASE: "sync",
    DeadlineKind.PENDING_JOIN: "member id",
    DeadlineKind.REVOCATION: "revocation",
    DeadlineKind.LOG_APPEND: "log append",
}
WIDE_STATES: Final = 64
"""Columns from which on the table of states has every transition."""
BAR_WIDTH: Final = 8


class PartitionRun(NamedTuple):
    """Partitions of one topic in one row: they have the same owners, assignment and believed owners."""

    partitions: list[TopicPartition]
    span: PartitionSpan
    believed: tuple[MemberId, ...]


def state_panel(shown: Shown, width: int, height: int) -> list[Text]:
    """The lines of the panel with all states: it marks the present one, the one before, and those that may follow."""
    view, present = shown.view, shown.view.moment.state
    move = view.last_move
    lines = [rule(shown.says("State"), width, f"{_short(move.before)} → {_short(move.after)}" if move else "")]
    reader = READERS[view.moment.kind]
    for state in reader.states:
        is_present = state == present
        notes = [shown.says("before")] if move is not None and state == move.before else []
        notes += [shown.says("may follow")] if state in view.may_follow else []
        if is_present:
            age_ms = view.at_ms - view.state_since.at_ms
            is_new = view.state_since.position == view.moment.position and not age_ms
            notes = [shown.says("from now on") if is_new else shown.says("for", length=_time_text(age_ms))]
        mark = "▶" if is_present else "›" if state in view.may_follow else " "
        line = Text.assemble((f" {mark}", "bold" if is_present else "dim"))
        line.append(f" {state} ", style=f"bold reverse {STATE_STYLES.get(state, '')}" if is_present else "")
        line.append(" " * (len(GroupState.COMPLETING_REBALANCE) - len(state)))
        line.append(", ".join(notes), style="bold" if is_present else "dim")
        if width >= WIDE_STATES:
            line.truncate(WIDE_STATES - 20, overflow="ellipsis", pad=True)
            line.append(
                f"→ {', '.join(_short(each) for each in reader.states if each in reader.transitions[state])}",
                style="dim",
            )
        lines.append(line)
    return filled(lines, width, height)


def _short(state: AnyGroupState) -> str:
    """A state's name without `Rebalance` at the end: `Preparing` for `PreparingRebalance`."""
    return state.removesuffix("Rebalance")


def _time_text(length_ms: int) -> str:
    """A length of time, more coarsely the longer it is: `5.8 min`, `20.1 s`, `1.25 s`, `300 ms`."""
    if length_ms >= 600_000:
        return f"{length_ms / 60_000:.1f} min"
    if length_ms >= 10_000:
        return f"{length_ms / 1000:.1f} s"
    return duration_text(max(0, length_ms))


def member_panel(shown: Shown, width: int, height: int) -> list[Text]:
    """The lines of the panel with what each member does and owns.

    Members that the event names are marked; if there are too many rows, the list begins so that the first of them is
    visible.
    """
    view, moment = shown.view, shown.view.moment
    notes = [f"{'epoch' if view.is_of_consumer_protocol else 'gen'} {moment.generation_id}"]
    if view.generation is not None and view.generation.protocol_name:
        notes.append(view.generation.protocol_name)
    if len(", ".join(notes)) < width // 2 - 3 and not view.is_of_consumer_protocol:
        notes.append(f"{LEADER} {shown.says('leads')}")
    named = set(view.changed_members)
    first = next((index for index, each in enumerate(view.members) if each.lane.member_id in named), 0)
    members, more = window(view.members, height - 1, max(0, first - height + 3) + shown.scroll, shown.language)
    lines = [rule(_counted(shown, len(view.members), "member"), width, ", ".join(notes))]
    lines += [_member_row(shown, each, width, is_named=each.lane.member_id in named) for each in members]
    lines += more
    if not members:
        lines.append(Text(f"   {shown.says('no member')}", style="dim"))
    return filled(lines, width, height)


def _member_row(shown: Shown, member: MemberAtMoment, width: int, *, is_named: bool) -> Text:
    phases = {phase: shown.says(f"phase {name}") for phase, name in PHASES.items()}
    phase_width = max(map(cell_len, phases.values()))
    rest = width - 5 - phase_width
    name_width = min(rest // 2, 24)
    line = Text.assemble((" ▸" if is_named else "  ", "bold"))
    line.append(LEADER if member.is_leader else " ")
    line.append(fit(member.lane.name, name_width), style="bold" if is_named else "")
    line.append(" " + fit(phases[member.phase], phase_width), style=PHASE_STYLES.get(member.phase, ""))
    nothing = shown.says("new") if member.generation_id is None else "–"
    line.append(" " + fit(_owned_text(member, rest - name_width) or nothing, rest - name_width))
    return line


def _owned_text(member: MemberAtMoment, room: int) -> str:
    """The partitions that a member owns; without the topic if there is only one and `room` is short."""
    if not member.owned:
        return ""
    text = partitions_text(member.owned)
    topics = {each.topic for each in member.owned}
    return text if len(text) <= room or len(topics) > 1 else format_ranges([each.partition for each in member.owned])


def clock_panel(shown: Shown, width: int, height: int) -> list[Text]:
    """The lines of the panel with running deadlines (time left, a bar, what follows) and members' session timeouts."""
    clocks, sessions = shown.view.clocks, shown.sessions
    rows = [_clock_line(shown, each, width) for each in clocks]
    others = [_session_line(shown, each, width) for each in sessions.deadlines]
    if not shown.has_exchanges:
        others.append(Text(f"   {shown.says('session clocks', missing=phrase('step not recorded'))}", style="dim"))
    elif sessions.not_recorded:
        unknown = shown.says("not recorded of", members=shown.names.series(sessions.not_recorded))
        others.append(Text(fit(f"   {unknown}", width), style="dim"))
    if not rows:
        others.insert(0, Text(f"   {shown.says('no deadline')}", style="dim"))
    room = height - 1
    spare = room - len(rows) - len(others)
    lines: list[Text] = []
    for row, clock in zip(rows, clocks, strict=True):
        follows = wrap(_follows_line(clock.deadline, shown.language), width - 3, max(1, spare))
        spare -= len(follows)
        lines += [row, *(Text(f"   {line}", style="dim") for line in follows)]
    seen, more = window([*lines, *others], room, shown.scroll, shown.language)
    return filled(
        [
            rule(shown.says("Clocks"), width, shown.says("sessions by member") if sessions.deadlines else ""),
            *seen,
            *more,
        ],
        width,
        height,
    )


def _follows_line(deadline: ArmedDeadline, language: Language) -> str:
    return in_language(phrase("then", what=known_text(deadline.follows, FOLLOWS)), language)


def _clock_line(shown: Shown, clock: ClockAtMoment, width: int) -> Text:
    key = CLOCK_NAMES.get(clock.deadline.kind)
    name = shown.says(f"clock {key}") if key else str(clock.deadline.kind)
    if clock.deadline.member_id:
        name = f"{name} {shown.names[clock.deadline.member_id]}"
    return _bar_line(name, shown.says("left", length=_time_text(clock.left_ms)), clock.share_left, width)


def _session_line(shown: Shown, deadline: ArmedDeadline, width: int) -> Text:
    """The line of a member's session timeout.

    `≥` before the time left means that heartbeats may have restarted it later, at times that were not recorded.
    """
    left_ms = max(0, deadline.at_ms - shown.view.at_ms)
    left = ("≥ " if deadline.uncertain_ms else "") + shown.says("left", length=_time_text(left_ms))
    timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS
    if deadline.kind is DeadlineKind.SESSION:
        lanes = (each.lane for each in shown.view.members if each.lane.member_id == deadline.member_id)
        timeout_ms = max([left_ms, *(lane.session_timeout_ms for lane in lanes)])
    return _bar_line(shown.names[deadline.member_id], left, left_ms / max(1, timeout_ms), width)


def _bar_line(name: str, left: str, share: float, width: int) -> Text:
    full = round(min(1.0, share) * BAR_WIDTH)
    line = Text("   " + fit(name, max(6, width - 3 - cell_len(left) - BAR_WIDTH - 3)))
    line.append(f" {left} ", style="bold")
    line.append("█" * full, style="yellow")
    line.append("░" * (BAR_WIDTH - full), style="dim")
    return line


def partition_panel(shown: Shown, width: int, height: int) -> list[Text]:
    """The lines of the panel with the owners of partitions, and to whom they are assigned if that differs."""
    spans = shown.view.partitions
    unowned = sum(not span.owners for span in spans)
    note = shown.says("without owner", number=unowned) if unowned else ""
    runs, more = window(_runs(shown.view), height - 1, shown.scroll, shown.language)
    lines = [rule(_counted(shown, len(spans), "partition"), width, note), *_partition_rows(shown, runs, width), *more]
    if not runs:
        lines.append(Text(f"   {shown.says('no subscribed topic')}", style="dim"))
    return filled(lines, width, height)


def _partition_rows(shown: Shown, runs: Sequence[PartitionRun], width: int) -> Iterator[Text]:
    """Yield the row of each run of partitions; red if it has no owner or several."""
    texts = [printable(partitions_text(run.partitions)) for run in runs]
    name_width = min(max(map(cell_len, texts), default=0), width // 2)
    room = max(4, width - 5 - name_width)
    for text, run in zip(texts, runs, strict=True):
        is_disputed = len(run.span.owners) > 1 or len(run.believed) > 1
        style = "bold red" if is_disputed else "" if run.span.owners else "red"
        owners = _owners_text(run, shown)
        yield Text.assemble(
            f"   {fit(text, name_width)}  ", (fit(f"!! {owners}" if is_disputed else owners, room), style)
        )


def _owners_text(run: PartitionRun, shown: Shown) -> str:
    """The owners of a run of partitions; after them the assigned members and believed owners, if they differ."""
    span, names = run.span, shown.names
    text = ", ".join(names[each] for each in span.owners) or shown.says("none")
    if span.assigned_to != span.owners:
        assigned = ", ".join(names[each] for each in span.assigned_to) or phrase("step to none")
        text = shown.says("assigned", owners=text, assigned=assigned)
    others = [each for each in run.believed if each not in span.owners]
    return shown.says("believed", owners=text, others=names.series(others)) if others else text


def _counted(shown: Shown, number: int, noun: str) -> str:
    return shown.says(f"one {noun}") if number == 1 else shown.says(f"{noun}s", number=number)


def _runs(view: MomentView) -> list[PartitionRun]:
    runs: dict[object, PartitionRun] = {}
    for span in view.partitions:
        believed = view.believed.get(span.partition, ())
        key = span.partition.topic, span.owners, span.assigned_to, believed
        runs.setdefault(key, PartitionRun([], span, believed)).partitions.append(span.partition)
    return list(runs.values())
