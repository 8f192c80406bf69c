"""What is known about a group, as explanations use it: its events, those of the cluster, and its recorded exchanges."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Final, Generic, NamedTuple, TypeVar

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration.events import GroupUpgraded
from regroup.coordinator.consumer_group import ConsumerProfile
from regroup.coordinator.group import MemberId, MemberProfile
from regroup.coordinator.serialization import Cause, decode_cause, decode_event
from regroup.server.cluster.events import ClusterEvent, TopicCreated, decode_cluster_event
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.reading import read_recording
from regroup.server.recording.selection import ExchangeFilter
from regroup.storage.records import Record
from regroup.storage.store import EventStore, again_if_trimmed, trimmed_text

_UUID_TAIL: Final = re.compile(r"([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
EventKind = TypeVar("EventKind")


class Happening(NamedTuple, Generic[EventKind]):
    """A stored event with its position, time and cause."""

    position: int
    event_number: int
    coordinator_epoch: int
    at_ms: int
    event: EventKind
    cause: Cause

    def is_one_act_with(self, other: "Happening[EventKind]") -> bool:
        """Whether the same request, deadline or act led to both events."""
        mine = (self.cause, self.at_ms, self.coordinator_epoch)
        return mine == (other.cause, other.at_ms, other.coordinator_epoch)


GroupHappening = Happening[e.Event]
ClusterHappening = Happening[ClusterEvent]


class KnownHistory:
    """All that is stored about a group: its events, the events of the cluster, and the recorded exchanges.

    `recorded_since_ms` maps the coordinator epoch with which a process began to the time, in epoch milliseconds, since
    which that process has recorded exchanges. Without it, nothing is known about requests that led to no event.
    """

    def __init__(
        self,
        group_id: str,
        happenings: Sequence[GroupHappening],
        cluster: Sequence[ClusterHappening] = (),
        exchanges: Sequence[RecordedExchange] = (),
        recorded_since_ms: Mapping[int, int] | None = None,
        trimmed_through: int = 0,
    ) -> None:
        self.group_id = group_id
        self.happenings = happenings
        self.cluster = cluster
        self.exchanges = exchanges
        self._recorded_since_ms = recorded_since_ms or {}
        self.beginning = trimmed_text(trimmed_through)
        """Where the history begins, as an addition to a sentence; empty if nothing was trimmed."""

    # Events

    def act_of(self, index: int) -> range:
        """The indexes of all events that the same request, deadline or act led to as the event at `index`; `index` is
        among them."""
        happenings, first, last = self.happenings, index, index
        while first and happenings[first - 1].is_one_act_with(happenings[index]):
            first -= 1
        while last + 1 < len(happenings) and happenings[last + 1].is_one_act_with(happenings[index]):
            last += 1
        return range(first, last + 1)

    def last_before(self, index: int, *kinds: type[e.Event]) -> int | None:
        """The index of the last event of these kinds before `index` (exclusive); None if there is none."""
        return next((i for i in range(index - 1, -1, -1) if isinstance(self.happenings[i].event, kinds)), None)

    def index_of(self, position: int) -> int | None:
        return next((i for i, each in enumerate(self.happenings) if each.position == position), None)

    # Members

    @cached_property
    def _profiles(self) -> dict[MemberId, MemberProfile | ConsumerProfile]:
        """The last profile (subscription, client id and so on) of each member, of either protocol, that an event of the
        history contains."""
        profiles: dict[MemberId, MemberProfile | ConsumerProfile] = {}
        for each in self.happenings:
            match each.event:
                case (
                    e.MemberJoined(member_id=member_id, profile=profile)
                    | e.MemberRejoined(member_id=member_id, profile=profile)
                    | e.StaticMemberReplaced(member_id=member_id, profile=profile)
                    | ce.MemberSubscribed(member_id=member_id, profile=profile)
                ):
                    profiles[member_id] = profile
                case ce.StaticConsumerReplaced(member_id=member_id, replaced_member_id=replaced) if (
                    replaced in profiles
                ):
                    profiles.setdefault(member_id, profiles[replaced])
                case GroupUpgraded(profiles=upgraded):
                    profiles |= upgraded
        return profiles

    @cached_property
    def topic_names(self) -> dict[str, str]:
        """The name of each topic by its id, also of those that were deleted."""
        return {each.event.topic_id: each.event.name for each in self.cluster if isinstance(each.event, TopicCreated)}

    @cached_property
    def _client_ids(self) -> dict[MemberId, str]:
        pending = {
            each.event.member_id: each.event.client_id
            for each in self.happenings
            if isinstance(each.event, e.PendingMemberAdded)
        }
        # Of a member that joined before the history was trimmed only the id is left, which begins with the client id.
        removed = {
            each.event.member_id: _UUID_TAIL.sub("", each.event.member_id).removesuffix("-")
            for each in self.happenings
            if isinstance(each.event, e.MemberRemoved | e.MemberLeft)
        }
        return removed | pending | {member_id: profile.client_id for member_id, profile in self._profiles.items()}

    @cached_property
    def _members_by_client_id(self) -> dict[str, list[MemberId]]:
        members: dict[str, list[MemberId]] = defaultdict(list)
        for member_id, client_id in self._client_ids.items():
            members[client_id].append(member_id)
        return members

    def client_id_of(self, member_id: MemberId) -> str:
        """The client id of a member; empty if it is not known."""
        return self._client_ids.get(member_id, "")

    def instance_id_of(self, member_id: MemberId) -> str | None:
        profile = self._profiles.get(member_id)
        return profile.instance_id if profile else None

    def name_of(self, member_id: MemberId) -> str:
        """How a sentence names a member: `member second`, by its client id if no other member of the history has the
        same, or else by a shortened member id."""
        client_id = self.client_id_of(member_id)
        is_unique = client_id and len(self._members_by_client_id[client_id]) == 1
        short_id = _UUID_TAIL.sub(r"\1…", member_id)
        return f"member {client_id if is_unique else short_id}"

    def member_ids_of(self, name: str) -> list[MemberId]:
        """The ids of the members that have this member id, instance id or client id, in the order of their first
        events."""
        return [
            member_id
            for member_id, client_id in self._client_ids.items()
            if name in (member_id, client_id, self.instance_id_of(member_id))
        ]

    # Exchanges

    def is_recorded(self, happening: GroupHappening, since_ms: int) -> bool:
        """Whether every request was recorded since `since_ms` by the process in which this event happened."""
        begun = [epoch for epoch in self._process_epochs if epoch <= happening.coordinator_epoch]
        return bool(begun) and self._recorded_since_ms.get(max(begun), since_ms + 1) <= since_ms

    @property
    def has_recording(self) -> bool:
        return bool(self._recorded_since_ms)

    @cached_property
    def _process_epochs(self) -> set[int]:
        """The coordinator epochs with which processes began, as far as recordings or names of connections (`0-3@7`)
        show them."""
        causes = [each.cause for each in self.happenings] + [each.cause for each in self.cluster]
        named = {cause.connection.rpartition("@")[2] for cause in causes}
        return {*self._recorded_since_ms, *(int(epoch) for epoch in named if epoch.isdecimal())}

    def began_a_process(self, happening: GroupHappening, before: GroupHappening) -> bool:
        """Whether a process of the emulator was started after the event `before` and before the event `happening` was
        stored."""
        return any(before.coordinator_epoch < epoch <= happening.coordinator_epoch for epoch in self._process_epochs)

    def exchange_of(self, happening: GroupHappening) -> RecordedExchange | None:
        """The recorded exchange whose request led to an event; None if it was not recorded, or if no request led to the
        event."""
        return next(
            (
                each
                for each in self.exchanges
                if (each.connection, each.correlation_id)
                == (happening.cause.connection, happening.cause.correlation_id)
                and each.at_ms <= happening.at_ms
                and (each.row.ended_at_ms is None or happening.at_ms <= each.row.ended_at_ms)
            ),
            None,
        )

    def requests_of(
        self, member_id: MemberId, after_ms: int, until_ms: int | None = None
    ) -> Iterator[RecordedExchange]:
        """The recorded requests that name the member and came after `after_ms` and before `until_ms`, both exclusive. A
        run of equal heartbeats counts if a part of it lies in this time."""
        for each in self.exchanges:
            if member_id in each.members and each.last_at_ms > after_ms and (until_ms is None or each.at_ms < until_ms):
                yield each


async def read_known_history(store: EventStore, group_id: str) -> KnownHistory:
    """Read the events and recorded exchanges that a store has about a group. Raises StoreError."""
    return await again_if_trimmed(partial(_read_known_history, store, group_id))


async def _read_known_history(store: EventStore, group_id: str) -> KnownHistory:
    after = store.trimmed_through
    happenings = [_happening(record, decode_event(record)) async for record in store.read(group=group_id, after=after)]
    cluster = [_happening(record, decode_cluster_event(record)) async for record in store.read(group=None, after=after)]
    exchanges, recorded_since_ms = await read_recording(store, ExchangeFilter(group=group_id))
    return KnownHistory(group_id, happenings, cluster, exchanges, recorded_since_ms, after)


def _happening(record: Record, event: EventKind) -> Happening[EventKind]:
    return Happening(
        record.position,
        record.event_number,
        record.coordinator_epoch,
        record.at_ms,
        event,
        decode_cause(record) or Cause(),
    )
