"""What the simulated members of a process believed they owned, while it runs: for the page, as of a simulation."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from regroup.members.runtime.application import MemberView
from regroup.server.recording.observations import ViewObserved

MAX_VIEWS: Final = 10_000
"""Changes of what they believed, of all groups together. With the next one nothing is known any more of any time."""
WITHOUT_PROCESS: Final = frozenset({"restarting", "crashed", "left", "failed"})


class MemberViews:
    """Keeps each change of what a member believed it owned."""

    def __init__(self) -> None:
        self._views: dict[str, list[ViewObserved]] = defaultdict(list)
        self._last: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {}
        self._member_ids: dict[str, set[str]] = defaultdict(set)
        self._count = 0

    def note(self, group: str, view: MemberView, *, at_ms: int, position: int) -> None:
        """Note what a member believes now; `position` is that of the last event."""
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
        """The views of a group's members, if all that it has had were simulated ones here; None otherwise."""
        if self._count > MAX_VIEWS or not self._member_ids[group].issuperset(member_ids):
            return None
        return self._views[group]
