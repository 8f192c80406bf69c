"""A fault rule as a value: which requests it matches, and what happens to them.

FaultRule(on="OffsetCommit", group="billing", answer=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2)
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec

from regroup.protocol.apis import APIS
from regroup.server.faults.answers import ANSWERED_APIS
from regroup.server.faults.facts import RequestFacts

DropKind: TypeAlias = Literal["", "request", "answer"]
CloseKind: TypeAlias = Literal["", "before", "after"]

API_NAMES: Final = tuple(sorted(api.name for api in APIS.values()))
MAX_DELAY_S: Final = 3_600.0


class InvalidFault(ValueError):
    """A rule that cannot do what it says; the message says why."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All conditions that are given must hold; of the effects, those that do not exclude each other may be combined."""

    on: str | tuple[str, ...] = ()
    """Kafka's name of an API, or several: `JoinGroup`. Empty for every API."""
    version: int | None = None
    group: str = ""
    member_id: str = ""
    instance_id: str = ""
    client_id: str = ""
    topic: str = ""
    broker: int | None = None
    generation: int | None = None
    skip: int = 0
    """How many matching requests pass before the first is hit."""
    times: int | None = None
    """How many requests are hit; None for all."""
    chance: float = 1.0
    """The share of the matching requests that is hit, drawn with `seed`."""
    seed: int = 0
    expires_after_s: float | None = None
    """The rule is removed after this time; None for never."""

    delay_s: float = 0.0
    """The handler gets the request so much later."""
    answer: int | None = None
    """The request is not applied, and answered with this error code."""
    drop: DropKind = ""
    """`request`: never applied and never answered. `answer`: applied, and never answered. The connection stays open."""
    close: CloseKind = ""
    """The connection is closed before the request is applied, or after it in place of the response."""
    repeat: bool = False
    """The request is applied twice; the client gets the second response."""
    hold: bool = False
    """The request waits until the rule is released or removed."""
    answer_delay_s: float = 0.0
    """The client gets the response so much later."""
    throttle_ms: int = 0
    """`throttle_time_ms` of the response."""

    def __post_init__(self) -> None:
        for name in self.apis:
            if name not in API_NAMES:
                nearest = get_close_matches(name, API_NAMES, n=1)
                hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(API_NAMES)}"
                raise InvalidFault(f"unknown API {name!r}: {hint}")
        for problem in self._problems():
            raise InvalidFault(problem)

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that the rule names; empty for every API."""
        return (self.on,) if isinstance(self.on, str) and self.on else tuple(self.on)

    def _problems(self) -> Iterator[str]:
        ends = [name for name in ("answer", "drop", "close") if getattr(self, name) not in (None, "")]
        if not (ends or self.repeat or self.hold or self.delay_s or self.answer_delay_s or self.throttle_ms):
            yield "the rule does nothing: give it an answer, a delay, drop, close, repeat, hold or a throttle"
        if len(ends) > 1:
            yield f"a request cannot have both {ends[0]} and {ends[1]}"
        if self.repeat and (self.answer is not None or "request" in self.drop or self.close == "before"):
            yield "a request that is not applied cannot be applied twice"
        unanswerable = [name for name in self.apis if name not in ANSWERED_APIS]
        if self.answer is not None and (unanswerable or not self.apis):
            what = unanswerable[0] if unanswerable else "every API"
            yield f"an error code as answer to {what} is not supported; it is for {', '.join(sorted(ANSWERED_APIS))}"
        for name in ("delay_s", "answer_delay_s"):
            if not 0 <= getattr(self, name) <= MAX_DELAY_S:
                yield f"invalid {name}: {getattr(self, name)}; give 0 to {MAX_DELAY_S:g}"
        if self.expires_after_s is not None and self.expires_after_s <= 0:
            yield f"invalid expires_after_s: {self.expires_after_s}; give more than 0"
        if not 0 <= self.chance <= 1:
            yield f"invalid chance: {self.chance}; give 0 to 1"
        for name in ("skip", "times", "throttle_ms"):
            if (getattr(self, name) or 0) < 0:
                yield f"invalid {name}: {getattr(self, name)}; it cannot be negative"

    @property
    def effect(self) -> str:
        """What the rule does, in a few words: `hold, drop answer`."""
        parts = [name for name in ("hold", "repeat") if getattr(self, name)]
        parts += [f"{name} {getattr(self, name)}" for name in ("drop", "close") if getattr(self, name)]
        parts += ["answer"] if self.answer is not None else []
        parts += ["delay"] if self.delay_s or self.answer_delay_s else []
        return ", ".join([*parts, "throttle"] if self.throttle_ms else parts)

    def may_match_api(self, name: str) -> bool:
        """Whether the rule is about this API."""
        return not self.apis or name in self.apis

    def matches(self, facts: RequestFacts) -> bool:
        """Whether the conditions hold of a request; counts and chance are not considered."""
        return (
            self.may_match_api(facts.api)
            and self.version in (None, facts.version)
            and self.broker in (None, facts.broker)
            and self.client_id in ("", facts.client_id)
            and (not self.group or self.group in facts.groups)
            and (not self.member_id or self.member_id in facts.members)
            and (not self.instance_id or self.instance_id in facts.instances)
            and (self.generation is None or self.generation == facts.generation)
            and (not self.topic or self.topic in facts.topics)
        )
