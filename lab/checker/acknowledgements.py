"""What clients were promised, and what they were told of each other: the ledger that the coordinator is held to.

    promises = Promises()
    promises.told(exchange)                  # an answer leaves
    promises.changed(exchange)               # a command has been dealt with
    promises.lost_by(loaded)                 # sentences about what a load has not brought back

It is kept from commands and answers alone, not from events.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, MemberId
from regroup.lab.checker.exchanges import Exchange
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, TopicPartition, decode_assignment

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class PromisedOffset:
    """What was acknowledged last, and what was handed in since: after a crash any of these may be there."""

    acknowledged: int | None = None
    since: list[tuple[int, int]] = field(default_factory=list)
    """Number of the exchange, and offset."""

    def allows(self, offset: int | None) -> bool:
        return self.acknowledged is None or offset in (self.acknowledged, *(each for _, each in self.since))


@dataclass(slots=True)
class PromisedShares:
    """What members were given in the last generation in which anybody was given anything."""

    generation: int
    shares: dict[MemberId, bytes] = field(default_factory=dict)
    static: dict[MemberId, str] = field(default_factory=dict)


@dataclass(slots=True)
class Generation:
    """One generation of one reign: who leads it, and who was given what."""

    reign: int
    number: int
    leader: MemberId | None = None
    owners: dict[TopicPartition, MemberId] = field(default_factory=dict)


class Promises:
    """Of one run, all groups."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Place, PromisedOffset]] = {}
        self.shares: dict[str, PromisedShares] = {}
        self.generations: dict[str, Generation] = {}
        self.out: dict[MemberId, int] = {}
        """Who was taken out or replaced, and in which reign; a load that forgets a member counts."""

    # What was handed in and what was promised

    def handed_in(self, exchange: Exchange, command: c.CommitOffsets) -> None:
        """A commit that the coordinator has looked at, and whose answer is still to come."""
        promised = self.offsets.setdefault(command.group_id, {})
        for each in command.offsets:
            known = promised.setdefault((each.topic, each.partition), PromisedOffset())
            known.since.append((exchange.number, each.offset))

    def acknowledged(self, exchange: Exchange, answer: Any) -> None:
        """The answer to a commit leaves: partition by partition it is a promise, or none. Even what was refused since
        its coordinator died may have reached the disk."""
        command = exchange.command
        assert isinstance(command, c.CommitOffsets)
        promised = self.offsets.setdefault(command.group_id, {})
        codes = {(t.name, row.partition_index): row.error_code for t in answer.topics for row in t.partitions}
        for each in command.offsets:
            place = each.topic, each.partition
            if codes[place] == 0:
                known = promised.setdefault(place, PromisedOffset())
                known.acknowledged = each.offset
                known.since = [later for later in known.since if later[0] > exchange.number]

    def given(self, exchange: Exchange, answer: Any) -> None:
        """A SyncGroup was answered, perhaps with a share."""
        command = exchange.command
        assert isinstance(command, c.SyncGroup)
        if answer.error_code != 0:
            return
        promised = self.shares.get(command.group_id)
        if promised is None or promised.generation != command.generation_id:
            promised = self.shares[command.group_id] = PromisedShares(command.generation_id)
        promised.shares[command.member_id] = answer.assignment
        member = exchange.before.members.get(command.member_id)
        if member and member.instance_id is not None:
            promised.static[command.member_id] = member.instance_id

    def generation(self, exchange: Exchange, number: int) -> Generation:
        """What was said of this generation so far, in this reign."""
        known = self.generations.get(exchange.group_id)
        if known is None or (known.reign, known.number) != (exchange.reign, number):
            known = self.generations[exchange.group_id] = Generation(exchange.reign, number)
        return known

    # What happened since

    def changed(self, exchange: Exchange) -> None:
        """A command has changed its group: who is out now, and which promises are void."""
        before, after = exchange.before, exchange.after
        if before.members is not after.members:
            self._note_who_is_out(before, after, exchange.reign)
        if not after.exists:
            self.offsets.pop(after.name, None)
            self.shares.pop(after.name, None)
            self.generations.pop(after.name, None)
        elif before.offsets is not after.offsets:
            self._note_other_offsets(exchange)

    def _note_who_is_out(self, before: Group, after: Group, reign: int) -> None:
        if before.members.keys() == after.members.keys():
            return
        for name in before.members:
            if name not in after.members:
                self.out[name] = reign
        for name in after.members:
            if name in self.out:
                del self.out[name]

    def _note_other_offsets(self, exchange: Exchange) -> None:
        """Deletions void a promise; a transaction that commits has its say like any commit."""
        promised = self.offsets.get(exchange.group_id)
        if promised is None:
            return
        match exchange.command:
            case c.DeleteOffsets() | c.ForgetOldOffsets() | c.ForgetTopic():
                for place in [place for place in promised if exchange.after.committed(*place) is None]:
                    del promised[place]
            case c.EndTransaction():
                for place, known in promised.items():
                    offset = exchange.after.committed(*place)
                    if offset is not None and offset != exchange.before.committed(*place):
                        known.since.append((exchange.number, offset.offset))

    # What a load must bring back

    def offsets_lost_by(self, loaded: Group) -> Iterator[str]:
        for (topic, partition), known in self.offsets.get(loaded.name, {}).items():
            offset = loaded.committed(topic, partition)
            found = None if offset is None else offset.offset
            if not known.allows(found):
                yield f"{topic}-{partition}: {known.acknowledged} was acknowledged, {found} was loaded"

    def shares_lost_by(self, loaded: Group) -> Iterator[str]:
        promised = self.shares.get(loaded.name)
        if promised is None or loaded.generation > promised.generation:
            return
        if loaded.generation < promised.generation:
            yield f"generation {promised.generation} had shares, generation {loaded.generation} was loaded"
            return
        for name, share in promised.shares.items():
            member = loaded.members.get(name)
            if member is None and promised.static.get(name) in loaded.static_members:
                continue  # another process has its place
            if member is None or member.assignment != share:
                yield f"the share of {name} in generation {loaded.generation}"


@lru_cache(maxsize=4_096)
def partitions_of(share: bytes) -> tuple[TopicPartition, ...]:
    """What a share of the consumer protocol holds; nothing, if it is none."""
    if share:
        with suppress(MalformedConsumerProtocol):
            return decode_assignment(share).partitions
    return ()
