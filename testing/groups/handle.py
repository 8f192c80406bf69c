"""The handle of one group, for a test that blocks. The examples run with `kafka`, as those of the emulator do."""

from collections.abc import Callable

from regroup.testing.clock.loop_thread import LoopThread
from regroup.testing.groups.async_group import AsyncGroup
from regroup.testing.groups.story import GroupEvent
from regroup.testing.groups.views import GroupView, PartitionName


class GroupHandle:
    """The handle of a group, by its name, from `Emulator.group`. Members are named by member id, instance id or client
    id."""

    def __init__(self, thread: LoopThread, group: AsyncGroup) -> None:
        self._thread = thread
        self._group = group
        self.name = group.name

    # Look

    def now(self) -> GroupView:
        """The group at this moment.

        >>> sorted(kafka.group("billing").now().partitions_of("first"))
        [('orders', 0)]
        """
        return self._thread.run(self._group.now())

    def events(self) -> list[GroupEvent]:
        """All events of the group, the oldest first.

        >>> [event.type for event in kafka.group("billing").events()][:2]
        ['group-created', 'member-joined']
        """
        return self._thread.run(self._group.events())

    def story(self) -> str:
        """The last events and requests as a small table, as in the message of a wait that failed.

        >>> print(kafka.group("billing").story().splitlines()[0])
        last events:
        """
        return self._thread.run(self._group.story())

    # Wait

    def wait_until(
        self, condition: Callable[[GroupView], object], *, timeout_s: float | None = None, what: str = "the condition"
    ) -> GroupView:
        """Wait until the condition holds of the group, and return the group as it was then.

        The condition is checked with every change; it gets the group and cannot call the emulator. Raises WaitTimeout
        with the group's last events and requests; `what` names the condition there.

        >>> kafka.group("billing").wait_until(lambda group: group.generation >= 2).generation
        2
        """
        return self._thread.run(self._group.wait_until(condition, timeout_s=timeout_s, what=what))

    def wait_until_stable(self, *, members: int | None = None, timeout_s: float | None = None) -> GroupView:
        """Wait until the group is Stable, with this number of members, and all have fetched their assignments.

        >>> kafka.group("billing").wait_until_stable(members=2).protocol
        'range'
        """
        return self._thread.run(self._group.wait_until_stable(members=members, timeout_s=timeout_s))

    # Act

    def expire(self, member: str) -> GroupView:
        """End the session of a member now. A client that lives joins again once its next heartbeat is refused.

        >>> len(kafka.group("billing").expire("first").members)
        1
        """
        return self._thread.run(self._group.expire(member))

    def remove(self, member: str) -> GroupView:
        """Remove a member as an administrator does (KIP-345), with LeaveGroup.

        >>> len(kafka.group("billing").remove("second").members)
        1
        """
        return self._thread.run(self._group.remove(member))

    def rebalance(self) -> GroupView:
        """Start a rebalance although nothing has changed, as a consumer can (KIP-568). Raises ActRefused unless the
        group is Stable or in its sync phase.

        >>> kafka.group("billing").rebalance().state
        <GroupState.PREPARING_REBALANCE: 'PreparingRebalance'>
        """
        return self._thread.run(self._group.rebalance())

    def complete_join_phase(self) -> GroupView:
        """End the join phase now, as its deadline would: members that have not joined are removed. Raises ActRefused
        outside of a join phase.

        >>> group = kafka.group("billing")
        >>> _ = group.rebalance()
        >>> group.complete_join_phase().state
        <GroupState.EMPTY: 'Empty'>
        """
        return self._thread.run(self._group.complete_join_phase())

    def bump_generation(self) -> GroupView:
        """Raise the generation by one without a rebalance, so that members get ILLEGAL_GENERATION. Apache Kafka never
        does this; the event's cause says so. Raises ActRefused unless the group is Stable.

        >>> kafka.group("billing").bump_generation().generation
        3
        """
        return self._thread.run(self._group.bump_generation())

    def forget_offsets(self, *partitions: PartitionName) -> GroupView:
        """Delete committed offsets, all of the group if no partition is named, also of topics to which members
        subscribe. Apache Kafka refuses that; the event's cause says so.

        >>> dict(kafka.group("billing").forget_offsets(("orders", 0)).committed)
        {}
        """
        return self._thread.run(self._group.forget_offsets(*partitions))

    def delete(self) -> None:
        """Remove all members, as an administrator, and delete the group with its offsets. Raises ActRefused if there is
        no such group.

        >>> kafka.group("billing").delete()
        >>> kafka.groups()
        []
        """
        self._thread.run(self._group.delete())
