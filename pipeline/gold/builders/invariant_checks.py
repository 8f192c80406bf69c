"""Checks the coordinator's own invariants on the events and groups of a history, for the table `violations`."""

from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator import invariants as i
from regroup.coordinator.consumer.invariants import CONSUMER_GROUP_INVARIANTS, CONSUMER_STEP_INVARIANTS
from regroup.coordinator.group import AwaitedResponse, Group, GroupState
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition
from regroup.pipeline.gold.folded_rows import FoldedRows

CLASSIC_STEP_INVARIANTS: Final[tuple[i.StepInvariant, ...]] = (
    i.a_transition_is_legal,
    i.generations_grow,
    i.a_load_restores_what_was_stored,
)

NUMBERS_SENTENCE: Final = i.invariant_sentence(i.event_numbers_have_no_gap)

SENTENCES: Final = {
    *map(i.invariant_sentence, CLASSIC_STEP_INVARIANTS),
    *map(i.invariant_sentence, i.GROUP_INVARIANTS),
    *map(i.invariant_sentence, CONSUMER_STEP_INVARIANTS),
    *map(i.invariant_sentence, CONSUMER_GROUP_INVARIANTS),
    NUMBERS_SENTENCE,
}
"""Every sentence that the table `violations` may have, except those of events that cannot be folded."""


class InvariantChecks(TableBuilder):
    """Adds the invariants that one group violates. Event numbers are checked elsewhere."""

    _sound: Group | None = None
    """The group when it was last found to violate nothing; not a part of a kept state, which has the group once."""

    def __init__(self) -> None:
        self._last: tuple[int, Group] | None = None
        """The last event's position, and the group after it: invariants need not hold within a command."""

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        if transition.begins_command:
            self.on_end(rows)
        before, event, after = transition.before, transition.event, transition.after
        is_classic = before.consumer is None and after.consumer is None
        if is_classic and type(event) in e.OFFSET_EVENTS:
            return
        position = transition.record.position
        for invariant in CLASSIC_STEP_INVARIANTS if is_classic else CONSUMER_STEP_INVARIANTS:
            if not invariant(before, event, after):
                add_violation(rows, position, i.invariant_sentence(invariant))
        self._last = (position, after)

    def stop_within_command(self) -> None:
        """Skip the check after the present command, whose next event cannot be folded."""
        self._last = None

    def on_end(self, rows: FoldedRows) -> None:
        """Add the violations of the group after its last command."""
        if self._last is not None:
            position, group = self._last
            self._last = None
            found = self._violations_of(group)
            for sentence in found:
                add_violation(rows, position, sentence)
            self._sound = None if found else group

    def __getstate__(self) -> dict[str, object]:
        return {"_last": self._last}

    def _violations_of(self, group: Group) -> list[str]:
        if self._sound is not None and len(group.member_ids) >= i.MANY_MEMBERS:
            return i.violations_since(self._sound, group)
        return [] if is_sound(group) else i.violations_of_group(group)


def is_sound(group: Group) -> bool:
    """Whether one look at each member shows that a classic group violates none of `GROUP_INVARIANTS`.

    This is asked after each command. If it is False, each invariant has to be asked, which takes three times as long.
    """
    state, members, name = group.state, group.members, group.protocol_name
    is_preparing, is_stable = state is GroupState.PREPARING_REBALANCE, state is GroupState.STABLE
    is_plain = group.consumer is None and not group.pending_join_members and not group.static_members
    if not is_plain or group.leader_id not in members or (group.join_phase is not None) != is_preparing:
        return False
    if not (is_preparing or is_stable or state is GroupState.COMPLETING_REBALANCE):
        return False
    legal = None if is_stable else AwaitedResponse.JOIN if is_preparing else AwaitedResponse.SYNC
    for member in members.values():
        profile = member.profile
        if profile.instance_id is not None or member.awaiting not in (None, legal):
            return False
        if not is_preparing and (name is None or not profile.supports(name)):
            return False
    return not is_stable or bool(group.pending_appends) or is_stored(group)


def is_stored(group: Group) -> bool:
    """Whether the log holds exactly the members of the group, in any order, with the same assignments."""
    if group.group_metadata is None:
        return False
    stored = {each.member_id: each.assignment for each in group.group_metadata.members}
    if len(stored) != len(group.members):
        return False
    return all(stored.get(member_id) == member.assignment for member_id, member in group.members.items())


def add_violation(rows: FoldedRows, position: int, sentence: str) -> None:
    rows.add("violations", {"position": position, "sentence": sentence})
