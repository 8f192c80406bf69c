"""Words of the classroom: member names in place of ids, lists, numbers of things, and lengths of time."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from regroup.coordinator.group import MemberId
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import TopicPartition

MAX_LISTED: Final = 12
"""Names in a sentence; further ones are counted."""
_UUID_TAIL: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class MemberNames:
    """Replaces member ids by the names of lanes."""

    def __init__(self, names: Mapping[MemberId, str]) -> None:
        self._names = names

    def __getitem__(self, member_id: MemberId) -> str:
        """The name of a member; a shortened id for one that never joined."""
        return self._names.get(member_id) or _UUID_TAIL.sub(r"\1…", member_id)

    def listed(self, member_ids: Iterable[MemberId], leader_id: MemberId | None = None) -> str:
        """`ben (leader) and carla`."""
        names = [self[each] + " (leader)" * (each == leader_id) for each in member_ids]
        return listed(names)

    def within(self, text: str) -> str:
        """A text in which each known member id is replaced. A reason of an event names the member that it is about."""
        return _UUID_TAIL.sub(r"\1…", " ".join(map(self._named, text.split(" "))))

    def _named(self, word: str) -> str:
        member_id = word.rstrip(".,;:")
        return self._names.get(member_id, member_id) + word[len(member_id) :]


def without_control_characters(text: str) -> str:
    """The text with control characters as Python writes them: names come from any client."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def listed(names: Sequence[str]) -> str:
    """`anna`, `anna and ben`, `anna, ben and carla`; of a long list the first ones."""
    if len(names) > MAX_LISTED:
        return f"{', '.join(names[:MAX_LISTED])} and {len(names) - MAX_LISTED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def listed_shares(shares: Sequence[str]) -> str:
    """`orders 0-1 to anna; orders 2-3 to ben`; of a long list the first ones."""
    more = [f"and {len(shares) - MAX_LISTED} more"] if len(shares) > MAX_LISTED else []
    return "; ".join([*shares[:MAX_LISTED], *more])


def times(number: int) -> str:
    """`once`, `twice`, `37 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def since_text(since_ms: int) -> str:
    """A time since a start: `+103.017 s`, as the page writes it."""
    return f"+{since_ms / 1000:.3f} s"


def not_recorded_text(missing: Sequence[str]) -> str:
    """The sentence about what was not recorded; empty if everything was."""
    return f"Not recorded: {listed(missing)}." if missing else ""


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """`orders 0-3, payments 1`; `nothing` if there are none."""
    ordered = sorted((each.topic, each.partition) for each in partitions)
    return format_partitions(ordered, between=", ") or "nothing"
