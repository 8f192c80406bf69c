"""What must hold of a coordinator at every moment, whatever its clients, its disk and its network do.

One invariant, one function, one sentence. A function returns None if all is well, and otherwise what it saw. Those
that can be said of the stored rows alone stand in `coordinator.invariants`, where `regroup verify` uses them too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, State, Written
from regroup.coordinator.settings import Settings
from regroup.lab.checker.acknowledgements import Promises, partitions_of
from regroup.lab.checker.exchanges import Exchange, Outcome
from regroup.lab.checker.response_table import AFTER_THE_WAIT, NOT_SERVED, may_be_parked, row_of, what_is_not_permitted
from regroup.lab.checker.shadow_state import SecondState
from regroup.lab.checker.timeouts import Patience
from regroup.protocol.errors import ErrorCode


@dataclass(slots=True)
class Known:
    """What the judge knows of a run, beside the exchange that it looks at."""

    settings: Settings
    now_ms: Callable[[], int]
    """Since the run began, by a clock that never jumps."""
    second: SecondState = field(default_factory=SecondState)
    promises: Promises = field(default_factory=Promises)
    patience: Patience = field(default_factory=Patience)
    unsound: set[tuple[str, int]] = field(default_factory=set)
    """Groups and generations whose leader deals badly: nothing is said of who owns what there."""


WAITS_FOR_THE_LOG: Final = (c.CommitOffsets, c.CommitTransactionalOffsets, c.LeaveGroup, c.DeleteOffsets)

Invariant: TypeAlias = Callable[[Known, Exchange], str | None]


def was_not_served(exchange: Exchange) -> bool:
    """The coordinator did not run when the request came, or stopped before it was answered."""
    if exchange.refusal is None and exchange.coordinator.refusal is None:
        return False
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in (exchange.refusal, exchange.coordinator.refusal)
    blind = loading and isinstance(exchange.command, c.Heartbeat)
    code = exchange.code
    return code in NOT_SERVED or (blind and code == 0)


# Of every answer


def a_request_is_answered_once(known: Known, exchange: Exchange) -> str | None:
    """A request is answered at most once."""
    return None if exchange.answers == 1 else f"{exchange.answers} answers"


def what_an_answer_rests_on_is_durable(known: Known, exchange: Exchange) -> str | None:
    """No answer leaves before the last position that its group had when it was decided is durable."""
    if exchange.position > exchange.durable_position:
        return f"it rests on position {exchange.position}, the disk has {exchange.durable_position}"
    return None


def an_answer_tells_what_is_stored(known: Known, exchange: Exchange) -> str | None:
    """Whoever reads the disk when an answer leaves finds there what the answer says."""
    stored = known.second.group(exchange.group_id)
    if stored.number < exchange.decided.number:
        return f"it was decided after event {exchange.decided.number}, the disk has {stored.number}"
    if exchange.code != 0:
        return None
    return what_the_disk_lacks(exchange, exchange.answer, stored)


def kafkas_log_is_waited_for(known: Known, exchange: Exchange) -> str | None:
    """No answer leaves before Kafka's own log, where that is slow, has committed what it rests on."""
    command, held, append = exchange.command, exchange.decided.appends, exchange.after.last_append
    if not held or exchange.code != 0:
        return None
    if isinstance(command, c.SyncGroup):
        behind = [
            each.what is Written.ASSIGNMENT and each.generation == command.generation_id for each in held.values()
        ]
        return "the assignment is written and not committed" if any(behind) else None
    if isinstance(command, WAITS_FOR_THE_LOG) and append is not None and append in held and not held[append].is_late:
        return f"event {append} is written and not committed"
    return None


def what_the_disk_lacks(exchange: Exchange, answer: Any, stored: Group) -> str | None:
    command, is_the_latest = exchange.command, stored.number == exchange.decided.number
    match command:
        case c.JoinGroup() if is_the_latest:
            if answer.member_id not in stored.members or answer.generation_id != stored.generation:
                return f"{answer.member_id} in generation {answer.generation_id}"
        case c.SyncGroup() if not exchange.decided.appends:
            if not holds_the_share(stored, command, answer.assignment):
                return f"the share of {command.member_id} in generation {command.generation_id}"
        case c.CommitOffsets() if is_the_latest:
            asked = {(each.topic, each.partition): each.offset for each in command.offsets}
            for topic in answer.topics:
                for row in topic.partitions:
                    offset = stored.committed(topic.name, row.partition_index)
                    wanted = asked[topic.name, row.partition_index]
                    if row.error_code == 0 and (offset is None or offset.offset != wanted):
                        return f"offset {wanted} of {topic.name}-{row.partition_index}"
    return None


def holds_the_share(stored: Group, command: c.SyncGroup, share: bytes) -> bool:
    """In a later generation nothing can be said: the next assignment may be on the disk already."""
    if stored.generation != command.generation_id:
        return stored.generation > command.generation_id
    member = stored.members.get(command.member_id)
    if stored.state is State.STABLE and member is not None:
        return member.assignment == share
    copy = stored.stored
    if copy is None or copy.generation != command.generation_id:
        return False
    return any(each.member_id == command.member_id and each.assignment == share for each in copy.members)


def an_answer_stands_in_the_table(known: Known, exchange: Exchange) -> str | None:
    """A request gets what the state of its group allows."""
    before = exchange.before
    if before.appends or exchange.after.appends or exchange.decided.appends:
        return None  # Kafka's own log holds something back, and may lose it: another table
    if exchange.place is None:
        return what_is_not_permitted(known.settings, before, exchange.command, exchange.answer)
    code = exchange.code
    if code in AFTER_THE_WAIT[exchange.place[0]]:
        return None
    return f"{row_of(known.settings, before, exchange.command)} was parked, and then got {ErrorCode.named(code)}."


def nobody_commits_who_is_out(known: Known, exchange: Exchange) -> str | None:
    """No commit is accepted from a member that the present reign has expelled or fenced."""
    command = exchange.command
    assert isinstance(command, c.CommitOffsets | c.CommitTransactionalOffsets)
    if exchange.code != 0 or command.generation_id < 0:
        return None
    if command.member_id and command.member_id not in exchange.before.members:
        return f"{command.member_id} is no member of {list(exchange.before.members)}"
    if known.promises.out.get(command.member_id) == exchange.reign and command.offsets:
        return f"{command.member_id} is out since reign {exchange.reign}"
    return None


def a_generation_has_one_leader(known: Known, exchange: Exchange) -> str | None:
    """Within a reign and generation, one member is told that it leads, and the others are told the same."""
    answer: Any = exchange.answer
    if exchange.code != 0:
        return None
    generation = known.promises.generation(exchange, answer.generation_id)
    told, generation.leader = generation.leader, answer.leader
    if told is None or told == answer.leader or told in known.promises.out or answer.leader in known.promises.out:
        return None  # a static leader that came back has another id; followers may be told the old one
    return f"generation {answer.generation_id}: {told} leads, and so does {answer.leader}"


def a_partition_has_one_owner(known: Known, exchange: Exchange) -> str | None:
    """Within a reign and generation no partition has two owners, where the leader's assignor is sound."""
    answer: Any = exchange.answer
    command = exchange.command
    assert isinstance(command, c.SyncGroup)
    if exchange.code != 0:
        return None
    if answer.protocol_type != "consumer" or (command.group_id, command.generation_id) in known.unsound:
        return None
    owners = known.promises.generation(exchange, command.generation_id).owners
    for partition in partitions_of(answer.assignment):
        owner = owners.setdefault(partition, command.member_id)
        if owner != command.member_id:
            if owner not in known.promises.out:
                return f"{partition} is given to {command.member_id} and to {owner}"
            owners[partition] = command.member_id
    return None


OF_ANSWERS: Final[tuple[Invariant, ...]] = (
    what_an_answer_rests_on_is_durable,
    an_answer_tells_what_is_stored,
    kafkas_log_is_waited_for,
    an_answer_stands_in_the_table,
)
"""Looked at when an answer leaves, unless the coordinator does not serve."""

OF_ANSWERS_TO: Final[dict[type[c.Command], tuple[Invariant, ...]]] = {
    c.JoinGroup: (*OF_ANSWERS, a_generation_has_one_leader),
    c.SyncGroup: (*OF_ANSWERS, a_partition_has_one_owner),
    c.CommitOffsets: (*OF_ANSWERS, nobody_commits_who_is_out),
    c.CommitTransactionalOffsets: (*OF_ANSWERS, nobody_commits_who_is_out),
}
"""The same, with those that speak of one kind of request."""


# Of requests that have no answer yet


def only_what_depends_on_others_is_parked(known: Known, exchange: Exchange) -> str | None:
    """A request is parked only where its answer depends on other members."""
    if exchange.place is None or exchange.after.appends or exchange.before.appends:
        return None
    if may_be_parked(known.settings, exchange.before, exchange.command):
        return None
    return f"{row_of(known.settings, exchange.before, exchange.command)} in {exchange.before.state} is parked"


def whoever_waits_is_answered(known: Known, exchange: Exchange) -> str | None:
    """A request stays without an answer only if it was superseded, its connection closed or its coordinator died.

    As in Kafka there is one more case: the parked SyncGroup of a member that is taken out.
    """
    if not exchange.is_open or exchange.outcome is Outcome.WAITING:
        return None
    return f"its answer was decided at position {exchange.position}, the disk has {known.second.position}"


# Of patience that ran out


def nobody_is_expelled_who_was_heard(known: Known, exchange: Exchange) -> str | None:
    """Nobody is expelled for silence who was heard within its session timeout, or whose own request is parked."""
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    member = exchange.before.members.get(command.member)
    if command.kind is not c.DeadlineKind.SESSION or member is None:
        return None
    if member.waiting is not None and not member.is_newcomer:
        return f"{command.member} waits for its {member.waiting}"
    heard_ms = known.patience.heard.get(command.member)
    if heard_ms is None or command.at_ms - heard_ms >= member.session_timeout_after(heard_ms):
        return None
    return f"{command.member} was heard {command.at_ms - heard_ms} ms ago"


def a_join_phase_keeps_static_members(known: Known, exchange: Exchange) -> str | None:
    """The end of a join phase takes no static member out (KIP-345)."""
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    if command.kind is not c.DeadlineKind.JOIN_PHASE:
        return None
    gone = [name for name in exchange.before.static_members.values() if name not in exchange.after.members]
    return f"{', '.join(gone)} did not come back in time" if gone else None


def no_deadline_is_overlooked(known: Known, exchange: Exchange) -> str | None:
    """Whatever is waited for ends when its time is up."""
    return next(known.patience.overdrawn(exchange.before, known.now_ms()), None)


OF_DEADLINES: Final[tuple[Invariant, ...]] = (
    nobody_is_expelled_who_was_heard,
    a_join_phase_keeps_static_members,
    no_deadline_is_overlooked,
)
"""Looked at when a deadline has passed."""


# Of loads


def a_load_finds_every_event(known: Known, exchange: Exchange) -> str | None:
    """Every logged event survives a crash: a coordinator loads what the stored rows add up to."""
    stored = known.second.group(exchange.group_id)
    return (
        None if exchange.before == stored else f"event {exchange.before.number} of {stored.number}, {exchange.before}"
    )


def acknowledged_offsets_survive(known: Known, exchange: Exchange) -> str | None:
    """Committed offsets survive every crash."""
    return next(known.promises.offsets_lost_by(exchange.after), None)


def assigned_shares_survive(known: Known, exchange: Exchange) -> str | None:
    """Stored assignments survive every crash."""
    return next(known.promises.shares_lost_by(exchange.after), None)


OF_LOADS: Final[tuple[Invariant, ...]] = (
    a_load_finds_every_event,
    acknowledged_offsets_survive,
    assigned_shares_survive,
)
"""Looked at when a coordinator has taken a group over."""


def the_stored_rows_add_up_to_the_live_group(live: Group, stored: Group, is_all_durable: bool) -> str | None:
    """A second state, folded from the stored rows, equals the live one whenever everything is durable."""
    if stored.number > live.number or (is_all_durable and stored.number < live.number):
        return f"the live group is at event {live.number}, the disk at {stored.number}"
    if stored.number == live.number and stored != live:
        return f"live {live}, on disk {stored}"
    return None
