"""The handle of one group of a running emulator, for coroutines in the emulator's loop: look at it, wait for it, act on
it.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from regroup.coordinator import commands as c
from regroup.coordinator.group import GroupKind, GroupState
from regroup.coordinator.serialization import Cause
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.recording.exchange import RecordedExchange, error_entries
from regroup.server.recording.selection import ExchangeFilter
from regroup.storage.records import Record
from regroup.storage.store import EventStore, again_if_trimmed
from regroup.testing.errors import ActRefused
from regroup.testing.groups.changes import Changes
from regroup.testing.groups.story import MAX_ROWS, GroupEvent, event_of, story_table
from regroup.testing.groups.views import GroupView, PartitionName, view_of
from regroup.testing.groups.waiting import WaitTimeout, wait_for_change

FIRST_REACH: Final = 1_000
"""How many positions before a group's last event its last events are looked for first."""


class RunningEmulator(Protocol):
    """What the handle of a group needs of its emulator."""

    @property
    def cluster(self) -> BrokerCluster:
        """The brokers. Raises EmulatorDown while there are none."""
        ...

    @property
    def changes(self) -> Changes: ...

    async def recorded_exchanges(self, wanted: ExchangeFilter) -> list[RecordedExchange] | None:
        """The recorded exchanges that pass the filter; None if exchanges are not recorded."""
        ...

    @property
    def wait_timeout_s(self) -> float: ...

    @property
    def started_at_ms(self) -> int: ...

    @property
    def history(self) -> EventStore:
        """The store with the history, which can be read also while no broker runs."""
        ...


class AsyncGroup:
    """The handle of a group, by its name; the group need not exist yet."""

    def __init__(self, emulator: RunningEmulator, name: str) -> None:
        self._emulator = emulator
        self.name = name

    # Look

    async def now(self) -> GroupView:
        return self._view()

    def _view(self) -> GroupView:
        cluster = self._emulator.cluster
        return view_of(cluster.coordinator_of(self.name).group(self.name), cluster.state)

    @property
    def _topics_image(self) -> TopicsImage:
        return self._emulator.cluster.state.topics_image

    async def events(self) -> list[GroupEvent]:
        return [event_of(record) for record in await again_if_trimmed(self._records)]

    async def story(self) -> str:
        events = [event_of(record) for record in await again_if_trimmed(self._last_records)]
        exchanges = await self._emulator.recorded_exchanges(ExchangeFilter(group=self.name))
        return story_table(events, exchanges, self._emulator.started_at_ms, self._view().members)

    async def _records(self, after: int = 0) -> list[Record]:
        """The stored events of the group after a position that have not been trimmed."""
        history = self._emulator.history
        return [each async for each in history.read(group=self.name, after=max(after, history.trimmed_through))]

    async def _last_records(self) -> list[Record]:
        """The last events of the group, at most MAX_ROWS. They are looked for from the end of a long history."""
        history = self._emulator.history
        head = (await history.heads()).get(self.name)
        if head is None:
            return []
        reach = FIRST_REACH
        while True:
            after = head.position - reach
            records = await self._records(after)
            if len(records) >= min(MAX_ROWS, head.event_number) or after <= history.trimmed_through:
                return records[-MAX_ROWS:]
            reach *= 10

    # Wait

    async def wait_until(
        self, condition: Callable[[GroupView], object], *, timeout_s: float | None = None, what: str = "the condition"
    ) -> GroupView:
        timeout_s = self._emulator.wait_timeout_s if timeout_s is None else timeout_s
        view = await wait_for_change(self._emulator.changes, lambda: self._checked(condition), timeout_s)
        if view is None:
            text = f"group {self.name!r} did not reach {what} within {timeout_s:g} s. It is {self._view()}."
            raise WaitTimeout(f"{text}\n{await self._story_of_failure()}", self._view())
        await self._wait_until_durable()
        return view

    async def _story_of_failure(self) -> str:
        try:
            return await self.story()
        except Exception as error:  # noqa: BLE001  # the failed wait is worth more than its story
            return f"its last events cannot be shown: {error}"

    def _checked(self, condition: Callable[[GroupView], object]) -> GroupView | None:
        view = self._view()
        return view if condition(view) else None

    async def wait_until_stable(self, *, members: int | None = None, timeout_s: float | None = None) -> GroupView:
        def is_reached(group: GroupView) -> bool:
            return group.is_settled and members in (None, len(group.members))

        what = "Stable" if members is None else f"Stable with {members} member{'' if members == 1 else 's'}"
        return await self.wait_until(is_reached, timeout_s=timeout_s, what=what)

    # Act

    async def expire(self, member: str) -> GroupView:
        member_id = self._view().member(member).member_id
        return await self._force(c.EndSession, "expire", member_id=member_id, topics=self._topics_image)

    async def remove(self, member: str) -> GroupView:
        found = self._view().member(member)
        leaving = c.LeavingMember(found.member_id, found.instance_id, "removed by a test")
        return await self._force(c.LeaveGroup, "remove", members=(leaving,), topics=self._topics_image)

    async def rebalance(self) -> GroupView:
        self._require("rebalance", GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
        return await self._force(c.StartRebalance, "rebalance")

    async def complete_join_phase(self) -> GroupView:
        self._require("complete a join phase", GroupState.PREPARING_REBALANCE)
        return await self._force(c.CompleteJoinPhase, "complete-join-phase")

    async def bump_generation(self) -> GroupView:
        self._require("bump the generation", GroupState.STABLE)
        return await self._force(c.RaiseGeneration, "bump-generation", beyond_kafka=True)

    async def forget_offsets(self, *partitions: PartitionName) -> GroupView:
        by_topic = grouped_by_topic(partitions) if partitions else None
        return await self._force(c.ForgetOffsets, "forget-offsets", beyond_kafka=True, partitions=by_topic)

    async def delete(self) -> None:
        view = self._view()
        if view.members:
            leaving = tuple(c.LeavingMember(each.member_id, each.instance_id) for each in view.members)
            await self._force(c.LeaveGroup, "delete", members=leaving, topics=self._topics_image)
        await self._force(c.DeleteGroup, "delete")

    def _require(self, act: str, *states: GroupState) -> None:
        view = self._view()
        if view.kind is GroupKind.CONSUMER:
            raise ActRefused(
                f"cannot {act} in group {self.name!r}: it is one of the consumer protocol, {view}; "
                "this needs a classic group"
            )
        if view.state not in states:
            raise ActRefused(
                f"cannot {act} in group {self.name!r}: it is {view}; this needs {' or '.join(s.value for s in states)}"
            )

    async def end_sessions_of(self, client_id: str) -> None:
        """End the sessions of the client's members, and of member ids that the client got and has not used."""
        group = self._emulator.cluster.coordinator_of(self.name).group(self.name)
        members = [each.member_id for each in self._view().members if each.client_id == client_id]
        pending = [each for each in group.pending_join_members if each[: -len("-") - UUID_LENGTH] == client_id]
        for member_id in members + pending:
            await self._force(c.EndSession, "crash-client", member_id=member_id, topics=self._topics_image)

    def check_coordinator(self) -> None:
        """Raise ActRefused while the coordinator of the group accepts no commands."""
        refusal = self._emulator.cluster.coordinator_of(self.name).refusal
        if refusal is not None:
            raise ActRefused(f"the coordinator of group {self.name!r} takes no commands now: {refusal.name}")

    async def _force(
        self, make_command: Callable[..., c.Command], act: str, *, beyond_kafka: bool = False, **fields: object
    ) -> GroupView:
        """Submit a forced change of the group, with the test as its cause, and return the group after it. Raises
        ActRefused if the group's state does not allow it."""
        self.check_coordinator()
        cluster = self._emulator.cluster
        coordinator = cluster.coordinator_of(self.name)
        codes: list[int] = []
        command = make_command(group_id=self.name, at_ms=cluster.state.now_ms(), **fields)
        coordinator.submit(
            command,
            lambda response: codes.extend(each.code for each in error_entries(response)),
            cause=Cause(test=act, beyond_kafka=beyond_kafka),
        )
        await self._wait_until_durable()
        if codes:
            raise ActRefused(f"{act}: group {self.name!r} refused it with {ErrorCode.name_of(codes[0])}")
        return self._view()

    async def _wait_until_durable(self) -> None:
        journal = self._emulator.cluster.journal
        await journal.wait_until_durable(journal.last_position)


UUID_LENGTH = 36
"""The characters of a UUID: a member id is the client id, a hyphen, and a UUID."""


def grouped_by_topic(partitions: Iterable[PartitionName]) -> dict[str, tuple[int, ...]]:
    """The partition indexes of each topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in by_topic.items()}
