"""Says aloud, in plain sentences, what has become true: happenings of a plan wait for such points."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from regroup.coordinator.group import Group, State
from regroup.lab.simulation.recovery import wanted
from regroup.members.consumer.effects import (
    Change,
    Closed,
    ConsumerError,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.faults import Moment, moments_in
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.storage.records import NewRecord

if TYPE_CHECKING:
    from regroup.lab.simulation.world import World

OF_MOMENTS = {
    Moment.JOINED: "has joined",
    Moment.ELECTED: "is elected leader",
    Moment.ASSIGNED: "is assigned partitions",
    Moment.REVOKED: "gives up partitions",
    Moment.LOST: "loses partitions",
}


class _Named(msgspec.Struct):
    member: str = ""
    client_id: str = ""


_NAMED = msgspec.json.Decoder(_Named)


class Herald:
    """Of one world: told by members' changes and by what reaches the disk."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._states: dict[str, tuple[object, int]] = {}
        self._leaders: dict[str, tuple[str | None, int]] = {}
        self._taken_for_dealt_out: dict[str, tuple[int, frozenset[TopicPartition]]] = {}
        self.expelled: list[str] = []
        """Names of members, in the order in which they were expelled; more than once if so."""
        self.generations = 0
        """How many have begun, of all groups."""
        self._first_given: dict[str, tuple[TopicPartition, ...]] = {}
        self._given_up: dict[str, tuple[TopicPartition, ...]] = {}

    def observed(self, name: str, happening: Change | ConsumerError) -> None:
        if isinstance(happening, ConsumerError):
            return
        self._note(name, happening)
        for moment in moments_in(happening):
            if moment in OF_MOMENTS:
                self._world.point(f"{name} {OF_MOMENTS[moment]}")
        if isinstance(happening, Closed):
            self._world.point(f"{name} is gone")

    def _note(self, name: str, change: Change) -> None:
        match change:
            case PartitionsAssigned(partitions) if partitions:
                self._first_given.setdefault(name, partitions)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions) if partitions:
                self._given_up.setdefault(name, partitions)

    def what_was_given_up(self, name: str) -> str | None:
        """Of what a member was given first; None if it still has everything and never let go of it."""
        if name in self._given_up:
            return f"it gave up {_listed(self._given_up[name])}"
        member = self._world.company.members.get(name)
        missing = set(self._first_given.get(name, ())) - set(member.consumer.assigned if member else ())
        return f"it has no longer {_listed(sorted(missing))}" if missing else None

    def stored(self, records: Sequence[NewRecord]) -> None:
        for record in records:
            if record.group is None:
                continue
            if record.type == "generation-started":
                self.generations += 1
            elif record.type == "member-joined":
                joined = _NAMED.decode(record.payload)
                self._world.company.knows(joined.member, joined.client_id)
            elif record.type == "member-expelled":
                name = self._world.company.name_of(_NAMED.decode(record.payload).member)
                if name is not None:
                    self.expelled.append(name)
                    self._world.point(f"{name} is expelled")
        for name in dict.fromkeys(record.group for record in records if record.group is not None):
            group = self._world.brokers.group(name)
            if group is not None:
                self._look_at(group)

    def _look_at(self, group: Group) -> None:
        before = self._states.get(group.name, (None, 0))
        now = (group.state, group.generation)
        self._states[group.name] = now
        self._look_at_the_leader(group)
        who = "the group" if group.name == "lab" else f"group {group.name}"
        if now[1] != before[1]:
            self._world.point(f"generation {now[1]} begins")
        if now[0] is not before[0]:
            self._world.point(f"{who} is {group.state.name.lower()}")

    def _look_at_the_leader(self, group: Group) -> None:
        """In Stable it has another id within one generation only if it is a static one that came back."""
        before = self._leaders.get(group.name)
        self._leaders[group.name] = now = (group.leader, group.generation)
        if group.state is State.STABLE and before is not None and before != now and before[1] == group.generation:
            self._taken_for_dealt_out[group.name] = group.generation, frozenset(wanted(self._world, group.name))

    def taken_for_dealt_out(self, group: Group) -> frozenset[TopicPartition]:
        """What nobody need own before the next rebalance: a static leader that comes back to a Stable group does not
        run its assignor, and watches from then on for changes of the topics as it has found them (KIP-814). Partitions
        that were added while it was away are overlooked; Kafka's own consumer does the same."""
        generation, partitions = self._taken_for_dealt_out.get(group.name, (0, frozenset()))
        return partitions if generation == group.generation else frozenset()


def _listed(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
