"""Made-up cases for a learner's assignor: topics, members and their subscriptions, drawn with a fixed seed."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from regroup.classroom.languages import Language

NUMBER_OF_CASES: Final = 60
_SEED: Final = "cases of the lesson about assignors"
_NAMES: Final = ("anna", "ben", "carla", "dora", "emil", "fay", "gus")
_TOPICS: Final = ("orders", "payments", "refunds")


class MadeUpCase(NamedTuple):
    """The arguments of one call of a learner's assignor, as plain values that can be sent to another process."""

    partitions: dict[str, int]
    members: dict[str, dict[str, Any]]
    """For each member its `topics`, and the `owned` partitions of its last assignment as pairs."""

    def text(self, language: Language) -> str:
        """The case as one line of text for the learner, in this language."""
        return str(self) if language is Language.ENGLISH else self._in_chinese()

    def _in_chinese(self) -> str:
        members = "，".join(
            f"{name}（订阅 {'、'.join(each['topics'])}"
            + (f"；原来拥有 {_pairs(each['owned'])}" if each["owned"] else "")
            + "）"
            for name, each in self.members.items()
        )
        topics = "，".join(f"{topic} 有 {count} 个 partition" for topic, count in self.partitions.items())
        return f"topic：{topics}；成员：{members}"

    def __str__(self) -> str:
        members = ", ".join(
            f"{name} ({', '.join(each['topics'])})" + (f" owning {_pairs(each['owned'])}" if each["owned"] else "")
            for name, each in self.members.items()
        )
        topics = ", ".join(f"{topic} with {count}" for topic, count in self.partitions.items())
        return f"topics: {topics}; members: {members}"


def _pairs(partitions: Sequence[Sequence[Any]]) -> str:
    return " ".join(f"{topic}-{number}" for topic, number in partitions)


def made_up_cases() -> Iterator[MadeUpCase]:
    """Yield the cases for checking an assignor: a few fixed ones, then random ones with a fixed seed."""
    yield MadeUpCase({"orders": 7}, {name: _member(["orders"]) for name in _NAMES[:3]})
    yield MadeUpCase({"orders": 2}, {name: _member(["orders"]) for name in _NAMES[:3]})
    yield MadeUpCase({"orders": 3, "payments": 3}, {name: _member(["orders", "payments"]) for name in _NAMES[:2]})
    rng = Random(_SEED)
    for _ in range(NUMBER_OF_CASES):
        topics = {topic: rng.randint(1, 9) for topic in rng.sample(_TOPICS, rng.randint(1, 3))}
        names = rng.sample(_NAMES, rng.randint(1, len(_NAMES)))
        are_equal = rng.random() < 0.6
        members = {}
        for name in names:
            chosen = sorted(topics) if are_equal else sorted(rng.sample(sorted(topics), rng.randint(1, len(topics))))
            members[name] = _member(chosen)
        if rng.random() < 0.5:
            _give_former_assignment(topics, members, rng)
        yield MadeUpCase(topics, members)


def _member(topics: list[str]) -> dict[str, Any]:
    return {"topics": topics, "owned": []}


def _give_former_assignment(topics: Mapping[str, int], members: dict[str, dict[str, Any]], rng: Random) -> None:
    """Choose some members as those that were there before, and give them all partitions in turn as `owned`."""
    former = rng.sample(sorted(members), rng.randint(1, len(members)))
    turn = 0
    for topic in sorted(topics):
        subscribed = [name for name in former if topic in members[name]["topics"]]
        for number in range(topics[topic] if subscribed else 0):
            members[subscribed[turn % len(subscribed)]]["owned"].append([topic, number])
            turn += 1
