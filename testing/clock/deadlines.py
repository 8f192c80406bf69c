"""Finds the next deadline of a whole cluster, of its groups and of its transactions."""

from collections.abc import Iterator

import msgspec

from regroup.server.broker_cluster import BrokerCluster


class PassedDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline that has passed. `kind` is `session`, `join-phase`, … or `transaction`, as in the causes of events."""

    at_ms: int
    kind: str
    group: str = ""
    member_id: str = ""
    transactional_id: str = ""


def next_deadline_of(cluster: BrokerCluster) -> PassedDeadline | None:
    """The earliest deadline of all groups and transactions; None if there is none."""
    return min(_deadlines(cluster), key=lambda deadline: deadline.at_ms, default=None)


def _deadlines(cluster: BrokerCluster) -> Iterator[PassedDeadline]:
    for coordinator in cluster.router.coordinators:
        for group in coordinator.groups():
            deadline = coordinator.next_deadline(group.group_id)
            if deadline is not None:
                yield PassedDeadline(
                    at_ms=deadline.at_ms, kind=deadline.kind.value, group=group.group_id, member_id=deadline.member_id
                )
    for transaction in cluster.state.image.transactions.values():
        if transaction.is_ongoing:
            yield PassedDeadline(
                at_ms=transaction.deadline_ms, kind="transaction", transactional_id=transaction.transactional_id
            )
