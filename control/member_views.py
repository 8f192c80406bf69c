"""Keeps which partitions the simulated members of a process believed they owned, so that the page can show it."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from regroup.members.runtime.application import MemberView
from regroup.server.recording.observations import ViewObserved

MAX_VIEWS: Final = 10_000
"""The most changes that are kept, of all groups together. After more changes no views are returned any more, since they
would be incomplete."""
WITHOUT_PROCESS: Final = frozenset({"restarting", "crashed", "left", "failed"})


class MemberViews:
    """Stores which partitions each simulated member believed it owned, one entry for each change."""

    def __init__(self) -> None:
        self._views: dict[str, list[ViewObserved]] = defaultdict(list)
        self._last: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {}
        self._member_ids: dict[str, set[str]] = defaultdict(set)
        self._count = 0

    def note(self, group: str, view: MemberView, *, at_ms: int, position: int) -> None:
        """Add an entry for a member of `group` if the partitions in `view` differ from those of its last entry. `at_ms`
        is the present time, `position` that of the last event in the store."""
        self._member_ids[group].add(view.member_id)
        owned = (
            () if view.condition in WITHOUT_PROCESS else tuple(sorted((p.topic, p.partition) for p in view.partitions))
        )
        if self._last.get(view.name, ("", ())) == (view.member_id, owned) or self._count > MAX_VIEWS:
            return
        self._last[view.name] = view.member_id, owned
        self._count += 1
        self._views[group].append(
            ViewObserved(
                at_ms=at_ms,
                position=position,
                client=view.name,
                group=group,
                member_id=view.member_id,
                partitions=owned,
            )
        )

    def of_group(self, group: str, member_ids: Collection[str]) -> Sequence[ViewObserved] | None:
        """The entries of the group's members; None if one of `member_ids` was not a simulated member of this process,
        or if there were too many changes to store."""
        if self._count > MAX_VIEWS or not self._member_ids[group].issuperset(member_ids):
            return None
        return self._views[group]
