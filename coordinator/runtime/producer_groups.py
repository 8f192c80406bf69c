"""Finds the groups that hold offsets of a producer's open transaction, without a look at every group."""

from collections.abc import Iterable

from regroup.coordinator.group import Group


class ProducerGroups:
    """The ids of the groups with pending transactional offsets, by producer id."""

    def __init__(self, groups: Iterable[Group] = ()) -> None:
        self._group_ids: dict[int, dict[str, None]] = {}
        for group in groups:
            self.note(None, group)

    def note(self, before: Group | None, after: Group) -> None:
        """Bring the ids up to date after a group has changed from `before` to `after`; `before` is None for a group
        that was not known."""
        former = before.pending_transactional_offsets if before else {}
        pending = after.pending_transactional_offsets
        if pending is former:
            return
        for producer_id in former:
            if producer_id not in pending:
                self._remove(producer_id, after.group_id)
        for producer_id in pending:
            self._group_ids.setdefault(producer_id, {})[after.group_id] = None

    def _remove(self, producer_id: int, group_id: str) -> None:
        group_ids = self._group_ids[producer_id]
        del group_ids[group_id]
        if not group_ids:
            del self._group_ids[producer_id]

    def of(self, producer_id: int) -> list[str]:
        """The ids of the groups that hold offsets of this producer's open transaction, in the order in which each got
        its first such offset."""
        return list(self._group_ids.get(producer_id, ()))
