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
    """Replaces ids by names: `names` has names of members by member id, and may have those of topics by topic id."""

    def __init__(self, names: Mapping[MemberId, str]) -> None:
        self._names = names

    def __getitem__(self, member_id: MemberId) -> str:
        """The name for a member id; the id with its UUID shortened if it has no name."""
        return self._names.get(member_id) or _UUID_TAIL.sub(r"\1…", member_id)

    def listed(self, member_ids: Iterable[MemberId], leader_id: MemberId | None = None) -> str:
        """The members' names in one English text, with the leader marked: `ben (leader) and carla`."""
        return in_language(self.series(member_ids, leader_id), Language.ENGLISH)

    def series(self, member_ids: Iterable[MemberId], leader_id: MemberId | None = None) -> PhraseValue:
        """The members' names as a phrase, with the leader marked; `listed` is its English text."""
        return series(
            "names",
            (
                phrase("leader among others", member=self[each]) if each == leader_id else self[each]
                for each in member_ids
            ),
        )

    def within(self, text: str) -> str:
        """The text with names in place of known ids, and with the UUIDs of other member ids shortened."""
        return _UUID_TAIL.sub(r"\1…", " ".join(map(self._named, text.split(" "))))

    def _named(self, word: str) -> str:
        bare = word.rstrip(_STOPS)
        name = self._names.get(bare)
        return word if name is None else name + word[len(bare) :]


def without_control_characters(text: str) -> str:
    """The text with control characters escaped as Python writes them, since names may come from any client."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def listed(names: Sequence[str]) -> str:
    """The names in one English text: `anna, ben and carla`; of a long list only the first ones and a count."""
    return in_language(series("names", names), Language.ENGLISH)


def times(number: int) -> PhraseValue:
    """How often something happened, as a phrase: `once`, `twice`, `37 times`."""
    return phrase({1: "once", 2: "twice"}[number]) if number in (1, 2) else phrase("times", number=number)


def since_text(since_ms: int) -> str:
    """A time in milliseconds since a start as text, in seconds: `+103.017 s`."""
    return f"+{since_ms / 1000:.3f} s"


def length(length_ms: int) -> PhraseValue:
    """A length of time in words: `45 s`, `300 ms`, `7 days`."""
    if length_ms and length_ms % DAY_MS == 0:
        days = length_ms // DAY_MS
        return phrase("day" if days == 1 else "days", number=days)
    return duration_text(length_ms)


def not_recorded_text(missing: Sequence[str], language: Language = Language.ENGLISH) -> str:
    """A sentence that says which of these kinds of facts were not recorded; empty if `missing` is."""
    what = series("names", (known_text(each, MISSING) for each in missing))
    return in_language(phrase("not recorded", what=what), language) if what else ""


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """The partitions by topic in one English text: `orders 0-3, payments 1`; `nothing` if there are none."""
    return in_language(partitions_value(partitions), Language.ENGLISH)


def partitions_value(partitions: Iterable[TopicPartition]) -> PhraseValue:
    """The partitions by topic as a phrase; `partitions_text` is its English text."""
    ordered = sorted((each.topic, each.partition) for each in partitions)
    topics = (format_partitions(list(of_topic)) for _, of_topic in groupby(ordered, key=itemgetter(0)))
    return series("listed", topics, limit=None) or phrase("no partition")
