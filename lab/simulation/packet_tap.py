"""Somebody who reads along on the network: says who asks what, and loses a request or an answer when told to."""

from collections.abc import Callable, Iterator
from struct import Struct

from regroup.lab.plan.plan import Plan
from regroup.lab.plan.steps import AnswerLost, RequestLost
from regroup.lab.simulation.endpoint import End
from regroup.protocol.apis import APIS

_LENGTH = Struct(">i")
_REQUEST = Struct(">hhi")
"""API key, version and correlation id, behind the length."""
_CORRELATION = Struct(">i")
POINTS = (" sends ", " is answered ")
KEY_OF = {api.name: key for key, api in APIS.items()}


class Wiretap:
    """`announce` is told, in words, who sends what and who is answered; clients are known by their host's name."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._asked: dict[End, dict[int, int]] = {}
        self._losing: list[tuple[str, int, bool]] = []

    def lose(self, host: str, api: str, *, answer: bool) -> None:
        """The next such request of a host, or the answer to it, never arrives: its connection breaks."""
        self._losing.append((host, KEY_OF[api], answer))

    def leaves(self, end: End, data: bytes) -> None:
        """Bytes were handed to the network."""
        if not end.is_client:
            return
        asked = self._asked.setdefault(end, {})
        for at in _frames(data):
            key, _, correlation_id = _REQUEST.unpack_from(data, at)
            asked[correlation_id] = key
            self._announce(f"{end.host} sends {APIS[key].name}")

    def arrives(self, end: End, data: bytes) -> bool:
        """Bytes have come. True if they, and their connection, are lost."""
        client = end if end.is_client else end.peer
        asked = self._asked.get(client, {})
        for at in _frames(data):
            if end.is_client:
                key = asked.pop(_CORRELATION.unpack_from(data, at)[0], None)
            else:
                key = _REQUEST.unpack_from(data, at)[0]
            wanted = (client.host, key, end.is_client)
            if wanted in self._losing:
                self._losing.remove(wanted)
                end.break_both("connection reset by peer")
                return True
            if end.is_client and key is not None:
                self._announce(f"{client.host} is answered {APIS[key].name}")
        return False


def _frames(data: bytes) -> Iterator[int]:
    """Where each frame's content begins. Our programs hand over whole frames."""
    at = 0
    while at + _LENGTH.size <= len(data):
        yield at + _LENGTH.size
        at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]


def reads_along(plan: Plan) -> bool:
    """Whether a plan speaks of single requests; if not, nobody need read along."""
    speaks = any(isinstance(happening.step, RequestLost | AnswerLost) for happening in plan.happenings)
    return speaks or any(word in happening.when.after for happening in plan.happenings for word in POINTS)
