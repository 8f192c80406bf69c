"""A fault rule as a value: which requests it matches, and what happens to them.

FaultRule(on="OffsetCommit", group="billing", answer=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2)
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from regroup.protocol.apis import check_api_name
from regroup.server.request_facts import RequestFacts
from regroup.server.responses.errors import ANSWERED_APIS, PARTITION_APIS

DropKind: TypeAlias = Literal["", "request", "answer"]
CloseKind: TypeAlias = Literal["", "before", "after"]
CutKind: TypeAlias = Literal["", "frame", "body"]
FalseAnswer: TypeAlias = Literal[
    "", "stale_generation", "second_leader", "other_assignment", "other_coordinator", "older_offset"
]

FALSE_ANSWERS: Final[dict[str, str]] = {
    "stale_generation": "JoinGroup",
    "second_leader": "JoinGroup",
    "other_assignment": "SyncGroup",
    "other_coordinator": "FindCoordinator",
    "older_offset": "OffsetFetch",
}
"""Each kind of false answer with the API whose responses it changes."""

MAX_DELAY_S: Final = 3_600.0
MAX_INT32: Final = 2**31 - 1

_EXCLUSIVE: Final = ("answer", "partition_error", "drop", "close", "cut", "false_answer")
"""Effects that exclude each other: a rule has at most one of them."""


class InvalidFault(ValueError):
    """The fields of a fault rule are invalid or contradict each other; the message says why."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests a fault hits, and what happens to them. A request matches if all given conditions hold. Effects
    may be combined, except those that exclude each other."""

    on: str | tuple[str, ...] = ()
    """Kafka's name of an API, or several: `JoinGroup`. Empty for every API."""
    version: int | None = None
    group: str = ""
    member_id: str = ""
    instance_id: str = ""
    client_id: str = ""
    topic: str = ""
    """The request names this topic; a request for all topics names every topic."""
    partitions: tuple[int, ...] = ()
    """The request names one of these partitions, of `topic` if that is given. Empty for any partition."""
    broker: int | None = None
    generation: int | None = None
    skip: int = 0
    """How many matching requests are not hit before the first hit."""
    times: int | None = None
    """How many requests are hit at most; None for no limit."""
    chance: float = 1.0
    """The probability, 0 to 1, with which a matching request is hit, drawn with `seed`."""
    seed: int = 0
    expires_after_s: float | None = None
    """The rule is removed after this many seconds; None for never."""

    delay_s: float = 0.0
    """The handler gets the request this many seconds later."""
    answer: int | None = None
    """The request is not applied, and answered with this error code."""
    partition_error: int | None = None
    """The partitions of `topic` and `partitions` are answered with this error code and not applied; the rest of the
    request is."""
    drop: DropKind = ""
    """`request`: never applied and never answered. `answer`: applied, and never answered. The connection stays open."""
    close: CloseKind = ""
    """The connection is closed before the request is applied, or after it in place of the response."""
    cut: CutKind = ""
    """The request is applied, and a part of the response is missing. `frame`: its first bytes are sent, and the
    connection is closed. `body`: a complete frame is sent, whose body ends early."""
    cut_at: float = 0.5
    """How much of the response is sent: below 1 a share of its bytes, from 1 on a number of bytes. At least the last
    byte is missing. `frame` counts from the length on, `body` from the end of the correlation id on."""
    false_answer: FalseAnswer = ""
    """The request is applied, and its response is legal and false. A response with an error code is left alone, and so
    is one that cannot be false in this way; neither counts as a hit."""
    repeat: bool = False
    """The request is applied twice; the client gets the second response."""
    hold: bool = False
    """The request waits until the rule is released or removed."""
    answer_delay_s: float = 0.0
    """The client gets the response this many seconds later."""
    throttle_ms: int = 0
    """The value of `throttle_time_ms` in the response; 0 leaves it as it is."""

    def __post_init__(self) -> None:
        for name in self.apis:
            try:
                check_api_name(name)
            except ValueError as error:
                raise InvalidFault(str(error)) from None
        for problem in self._problems():
            raise InvalidFault(problem)

    @property
    def apis(self) -> tuple[str, ...]:
        """Kafka's names of the APIs whose requests the rule can hit; empty for every API."""
        return (self.on,) if isinstance(self.on, str) and self.on else tuple(self.on)

    def _problems(self) -> Iterator[str]:
        ends = [name for name in _EXCLUSIVE if getattr(self, name) not in (None, "")]
        if not (ends or self.repeat or self.hold or self.delay_s or self.answer_delay_s or self.throttle_ms):
            yield "the rule does nothing: give it an effect, such as an answer, a delay, drop, close, cut or hold"
        if len(ends) > 1:
            yield f"a request cannot have both {ends[0]} and {ends[1]}"
        if self.repeat and (self.answer is not None or "request" in self.drop or self.close == "before"):
            yield "a request that is not applied cannot be applied twice"
        if self.repeat and (self.partition_error is not None or self.false_answer):
            yield f"repeat and {ends[0]} cannot be combined: a second rule can apply the request twice"
        if (self.drop or self.close) and (self.answer_delay_s or self.throttle_ms):
            yield f"{'drop' if self.drop else 'close'} leaves no answer to be delayed or throttled"
        yield from self._problems_of_answers()
        yield from self._problems_of_numbers()

    def _problems_of_answers(self) -> Iterator[str]:
        for field, known in (("answer", ANSWERED_APIS), ("partition_error", PARTITION_APIS)):
            if getattr(self, field) is not None and not (self.apis and known.issuperset(self.apis)):
                what = next((name for name in self.apis if name not in known), "every API")
                yield f"{field} does not exist for {what}; it exists for {', '.join(sorted(known))}"
        if self.partition_error is not None and not (self.topic or self.partitions):
            yield "partition_error concerns single partitions: give a topic, partitions or both; answer concerns all"
        if self.false_answer:
            api = FALSE_ANSWERS.get(self.false_answer)
            if api is None:
                yield f"unknown false_answer: {self.false_answer!r}; known are {', '.join(FALSE_ANSWERS)}"
            if self.apis != (api,):
                yield f"{self.false_answer} is an answer to {api}: give on={api!r}"
            if self.hold or self.delay_s:
                yield "the response decides whether false_answer hits: hold and delay_s need a rule of their own"
        for field, known_kinds in (("drop", "request, answer"), ("close", "before, after"), ("cut", "frame, body")):
            if getattr(self, field) and getattr(self, field) not in known_kinds.split(", "):
                yield f"invalid {field}: {getattr(self, field)!r}; it is one of {known_kinds}"

    def _problems_of_numbers(self) -> Iterator[str]:
        for name in ("delay_s", "answer_delay_s"):
            if not 0 <= getattr(self, name) <= MAX_DELAY_S:
                yield f"invalid {name}: {getattr(self, name)}; give 0 to {MAX_DELAY_S:g}"
        if self.expires_after_s is not None and not self.expires_after_s > 0:
            yield f"invalid expires_after_s: {self.expires_after_s}; give more than 0"
        if not 0 <= self.chance <= 1:
            yield f"invalid chance: {self.chance}; give 0 to 1"
        if not (0 <= self.cut_at < 1 or (1 <= self.cut_at <= MAX_INT32 and self.cut_at == int(self.cut_at))):
            yield f"invalid cut_at: {self.cut_at}; give a share below 1, or a whole number of bytes"
        for name in ("skip", "times", "throttle_ms"):
            if not 0 <= (getattr(self, name) or 0) <= MAX_INT32:
                yield f"invalid {name}: {getattr(self, name)}; give 0 to {MAX_INT32}"
        for name in ("answer", "partition_error"):
            if not -(2**15) <= (getattr(self, name) or 0) < 2**15:
                yield f"invalid {name}: {getattr(self, name)}; an error code has 16 bits"

    @property
    def effect(self) -> str:
        """What the rule does to a request, in a few words: `hold, drop answer`."""
        parts = [name for name in ("hold", "repeat") if getattr(self, name)]
        parts += [f"{name} {getattr(self, name)}" for name in ("drop", "close", "cut") if getattr(self, name)]
        parts += [self.false_answer.replace("_", " ")] if self.false_answer else []
        parts += ["answer"] if self.answer is not None else []
        parts += ["partition error"] if self.partition_error is not None else []
        parts += ["delay"] if self.delay_s or self.answer_delay_s else []
        return ", ".join([*parts, "throttle"] if self.throttle_ms else parts)

    def may_match_api(self, name: str) -> bool:
        """Whether the rule can hit requests of the API with this name."""
        return not self.apis or name in self.apis

    def matches(self, facts: RequestFacts) -> bool:
        """Whether a request with these facts fulfils all conditions of the rule. `skip`, `times` and `chance` are not
        considered."""
        return (
            self.may_match_api(facts.api)
            and self.version in (None, facts.version)
            and self.broker in (None, facts.broker)
            and self.client_id in ("", facts.client_id)
            and (not self.group or self.group in facts.groups)
            and (not self.member_id or self.member_id in facts.members)
            and (not self.instance_id or self.instance_id in facts.instances)
            and (self.generation is None or self.generation == facts.generation)
            and (not (self.topic or self.partitions) or facts.concerns(self.topic, self.partitions))
        )

    def concerns_partition(self, topic: str, index: int) -> bool:
        """Whether the rule's `partition_error` is the answer for this partition."""
        return self.topic in ("", topic) and (not self.partitions or index in self.partitions)


def checked_rule(**fields: Any) -> FaultRule:
    """The fault rule with these fields. Raises InvalidFault, also for a value of the wrong type."""
    try:
        rule = FaultRule(**fields)
        msgspec.convert(msgspec.to_builtins(rule), FaultRule)
    except TypeError:
        raise InvalidFault(_type_error(fields)) from None
    except msgspec.ValidationError as error:
        raise InvalidFault(str(error)) from None
    return rule


def _type_error(fields: dict[str, Any]) -> str:
    try:
        msgspec.convert(msgspec.to_builtins(fields), FaultRule)
    except (msgspec.ValidationError, TypeError) as error:
        return str(error)
    return "a value has a type that the rule does not take"
