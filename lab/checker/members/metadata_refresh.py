"""When a classic member repeats a Metadata request that has failed or has said too little: after Kafka's backoff, and
not later.

refresh = MetadataRefresh(now_ms, paused)
refresh.add_member("anna")
refresh.on_response("anna", message, response)   # None for a request that has failed
refresh.on_request("anna", message)              # the violation that this request is, or None
refresh.on_interruption("anna", duration_ms)     # anna's application may be outside poll() for so long
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse

REPEATS_IN_TIME: Final = (
    "A classic member that reads no records repeats a Metadata request that has failed, or whose response has an error "
    "of a topic that may pass, at the latest after retry.backoff.ms, doubled for each time in a row up to "
    "retry.backoff.max.ms (KIP-580), while its application is inside poll()."
)
FIRST_BACKOFF_MS: Final = 100
LONGEST_BACKOFF_MS: Final = 1_000
"""Kafka's defaults of `retry.backoff.ms` and `retry.backoff.max.ms`. Simulated members have no jitter."""
PROMPT_MS: Final = 5_000
"""A response that comes later may find that the member has given the request up: `request.timeout.ms` is longer."""
SLACK_MS: Final = 2
"""Times of members and of the run are rounded to milliseconds."""
FINAL_CODES: Final = (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(slots=True)
class _Refresh:
    """What one process has learnt of the topics of the cluster, and when it has to ask again."""

    is_known: bool = True
    """Whether the counts below are those of the member: a response that it handles late may count as a failure."""
    failures: int = 0
    without_news: int = 0
    """How many responses in a row had a topic with an error that may pass, and no new partition."""
    partitions: dict[str, int] = field(default_factory=dict)
    """The most partitions of each topic that a response has named."""
    sent_ms: dict[int, int] = field(default_factory=dict)
    """When the requests of this process without a response were sent, by their identities."""
    due_ms: int | None = None
    interrupted_until_ms: int = 0

    def set_due(self, now_ms: int) -> None:
        """Let the next request be due after the backoff that the failures and responses in a row have led to."""
        repeated = max(self.failures, self.without_news, 1) - 1
        self.due_ms = now_ms + min(FIRST_BACKOFF_MS << min(repeated, 20), LONGEST_BACKOFF_MS)


class MetadataRefresh:
    """The Metadata requests of the classic members of a run that read no records, by name.

    The fetcher of a member that reads records asks for Metadata as well, and nothing in a request shows whose it is.
    `now_ms` is the time of the run, `paused` are the members that pause.
    """

    def __init__(self, now_ms: Callable[[], int], paused: Container[str]) -> None:
        self._now_ms, self._paused = now_ms, paused
        self._members: dict[str, _Refresh] = {}

    def add_member(self, name: str) -> None:
        """Begin to check the process of a classic member that reads no records."""
        self._members[name] = _Refresh()

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended, and the next one knows nothing."""
        if name in self._members:
            self._members[name] = _Refresh()

    def on_interruption(self, name: str, duration_ms: int = 0) -> None:
        """Note that the application of a member may be outside poll() for a while, or that it ends its subscription.

        Interruptions may come one after the other: one that begins during a pause begins at its end.
        """
        if refresh := self._members.get(name):
            refresh.due_ms = None
            refresh.interrupted_until_ms = max(refresh.interrupted_until_ms, self._now_ms()) + duration_ms

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check when a member sends a Metadata request."""
        refresh = self._members.get(name)
        if refresh is None or not isinstance(message, MetadataRequest):
            return None
        refresh.sent_ms[id(message)] = self._now_ms()
        due_ms, refresh.due_ms = refresh.due_ms, None
        if due_ms is None or (late_ms := self._now_ms() - due_ms) <= SLACK_MS:
            return None
        return MemberViolation(REPEATS_IN_TIME, f"{name} sends it {late_ms} ms after that")

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note how a Metadata request has ended; `response` is None if it has failed."""
        refresh = self._members.get(name)
        if refresh is None or (sent_ms := refresh.sent_ms.pop(id(message), None)) is None:
            return
        now_ms = self._now_ms()
        is_prompt = response is None or now_ms - sent_ms <= PROMPT_MS
        is_handled = name not in self._paused and now_ms >= refresh.interrupted_until_ms and is_prompt
        is_repeated = self._take(refresh, response)
        refresh.is_known = is_handled and (refresh.is_known or not is_repeated)
        if is_repeated and refresh.is_known:
            refresh.set_due(now_ms)

    def _take(self, refresh: _Refresh, response: Any) -> bool:
        """Keep what a response says, or that there is none; returns whether the request has to be repeated."""
        if not isinstance(response, MetadataResponse):
            refresh.failures += 1
            return True
        is_new = False
        for topic in response.topics:
            if topic.name and len(topic.partitions) > refresh.partitions.get(topic.name, 0):
                refresh.partitions[topic.name] = len(topic.partitions)
                is_new = True
        refresh.failures = 0
        is_final = all(each.error_code in FINAL_CODES for each in response.topics)
        refresh.without_news = 0 if is_new or is_final else refresh.without_news + 1
        return not is_final
