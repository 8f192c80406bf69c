"""Words of the classroom: member names in place of ids, lists, numbers of things, and lengths of time."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from regroup.classroom.languages import Language
from regroup.classroom.phrases.known_texts import MISSING, known_text
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase, series
from regroup.coordinator.group import MemberId
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.explanation.sentences import duration_text

DAY_MS: Final = 86_400_000
_STOPS: Final = ".,;:"
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
        return in_language(self.series(member_ids, leader_id), Language.ENGLISH)

    def series(self, member_ids: Iterable[MemberId], leader_id: MemberId | None = None) -> PhraseValue:
        """The same as a value for any language."""
        return series(
            "names",
            (
                phrase("leader among others", member=self[each]) if each == leader_id else self[each]
                for each in member_ids
            ),
        )

    def within(self, text: str) -> str:
        """A text in which each known member id is replaced. A reason of an event names the member that it is about."""
        return _UUID_TAIL.sub(r"\1…", " ".join(map(self._named, text.split(" "))))

    def _named(self, word: str) -> str:
        bare = word.rstrip(_STOPS)
        name = self._names.get(bare)
        return word if name is None else name + word[len(bare) :]


def without_control_characters(text: str) -> str:
    """The text with control characters as Python writes them: names come from any client."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def listed(names: Sequence[str]) -> str:
    """`anna`, `anna and ben`, `anna, ben and carla`; of a long list the first ones."""
    return in_language(series("names", names), Language.ENGLISH)


def times(number: int) -> PhraseValue:
    """`once`, `twice`, `37 times`."""
    return phrase({1: "once", 2: "twice"}[number]) if number in (1, 2) else phrase("times", number=number)


def since_text(since_ms: int) -> str:
    """A time since a start: `+103.017 s`, as the page writes it."""
    return f"+{since_ms / 1000:.3f} s"


def length(length_ms: int) -> PhraseValue:
    """`45 s`, `300 ms`, `7 days`."""
    if length_ms and length_ms % DAY_MS == 0:
        days = length_ms // DAY_MS
        return phrase("day" if days == 1 else "days", number=days)
    return duration_text(length_ms)


def not_recorded_text(missing: Sequence[str], language: Language = Language.ENGLISH) -> str:
    """The sentence about what was not recorded; empty if everything was."""
    what = series("names", (known_text(each, MISSING) for each in missing))
    return in_language(phrase("not recorded", what=what), language) if what else ""


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """`orders 0-3, payments 1`; `nothing` if there are none."""
    return in_language(partitions_value(partitions), Language.ENGLISH)


def partitions_value(partitions: Iterable[TopicPartition]) -> PhraseValue:
    """The same as a value for any language."""
    ordered = sorted((each.topic, each.partition) for each in partitions)
    topics = (format_partitions(list(of_topic)) for _, of_topic in groupby(ordered, key=itemgetter(0)))
    return series("listed", topics, limit=None) or phrase("no partition")
