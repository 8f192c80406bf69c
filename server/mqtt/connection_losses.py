"""Keeps which members have lost their MQTT connection, until the coordinator removes them or they send a request.

    losses.add(ConnectionLoss("payments", "anna-1f2e…", "laptop-1", at_ms))
    losses.of_group("payments")       {"anna-1f2e…": ConnectionLoss(…)}: shown beside the member's session timeout

A loss concerns a connection, not a group: it is not stored, and the member's next request clears it.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple


class ConnectionLoss(NamedTuple):
    """A lost connection: the member, its client's name on MQTT, and when the last will was published."""

    group_id: str
    member_id: str
    client_name: str
    at_ms: int


class ConnectionLosses:
    """The members whose MQTT connections are lost, by group and member id. `on_change` is called with the group id when
    a loss is added or cleared."""

    def __init__(self, on_change: Callable[[str], None] = lambda group_id: None) -> None:
        self._on_change = on_change
        self._by_group: dict[str, dict[str, ConnectionLoss]] = {}

    def add(self, loss: ConnectionLoss) -> None:
        self._by_group.setdefault(loss.group_id, {})[loss.member_id] = loss
        self._on_change(loss.group_id)

    def clear(self, group_id: str, member_id: str) -> None:
        """Remove the loss of a member's connection from the list, because the member has sent a request since."""
        if member_id in self._by_group.get(group_id, {}):
            del self._by_group[group_id][member_id]
            self._on_change(group_id)

    def of_group(self, group_id: str) -> Mapping[str, ConnectionLoss]:
        """The lost connections of the group's members, by member id."""
        return self._by_group.get(group_id, {})

    def retain_members(self, group_id: str, member_ids: Collection[str]) -> None:
        """Remove the losses of all members of this group that are not in `member_ids`, because they have left the
        group."""
        losses = self._by_group.pop(group_id, {})
        remaining = {member_id: loss for member_id, loss in losses.items() if member_id in member_ids}
        if remaining:
            self._by_group[group_id] = remaining
