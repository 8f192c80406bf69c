"""When a client opens its connections: at once, and after failures with Kafka's backoff, which doubles.

dials = Reconnections("anna", now_ms, report)
dials.on_send(key)                          # anna sends a request to this target
dialled = dials.on_dial(key)                # anna begins to connect; reports a violation
dials.on_dialled(dialled, is_open=False)    # the connection is open, or could not be opened
dials.on_disconnected(lambda key: True)     # anna drops its connections to these targets
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from regroup.lab.checker.members.member_invariants import MemberViolation

WAITS_TO_RECONNECT: Final = (
    "A client that could not open a connection waits before it tries again: reconnect.backoff.ms (50 ms), twice as "
    "long after each further failure, at most reconnect.backoff.max.ms (1 s)."
)
BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000
SPREAD: Final = 0.2
"""Kafka spreads its backoffs by a fifth in both directions."""
ROUNDING_MS: Final = 2


class Target(NamedTuple):
    """For what a client opens a connection of its own: a kind of request, and the broker if the client knows it."""

    kind: Hashable
    address: tuple[str, int] | None


class Dial(NamedTuple):
    """An attempt to connect that is due."""

    target: Target
    due_ms: int
    failures: int
    """How many attempts for the same target have failed before it, one after the other."""

    @property
    def asked_at_ms(self) -> int:
        """When the request was sent that it is for."""
        return self.due_ms - backoff_ms(self.failures)


@dataclass(slots=True)
class _Connection:
    """What is known of the connection for one target."""

    failures: int = 0
    is_pending: bool = False
    """Whether an attempt to connect is due or under way: requests wait for it."""
    due: list[Dial] = field(default_factory=list)


class Reconnections:
    """The attempts of one client to connect. `now_ms` is the time of the run, `report` gets violations."""

    def __init__(
        self, name: str, now_ms: Callable[[], int], report: Callable[[Iterable[MemberViolation]], None]
    ) -> None:
        self._name, self._now_ms, self._report = name, now_ms, report
        self._connections: dict[Target, _Connection] = {}

    def on_send(self, target: Target) -> None:
        """Note a request: if there is no connection for it, the client opens one now, or after its backoff."""
        connection = self._connections.setdefault(target, _Connection())
        if connection.is_pending:
            return
        failures = connection.failures
        if failures:
            connection.is_pending = True
        else:
            connection.due = [each for each in connection.due if each.failures]  # a connection was open until now
        connection.due.append(Dial(target, self._now_ms() + backoff_ms(failures), failures))

    def on_disconnected(self, is_dropped: Callable[[Target], bool]) -> None:
        """Note that the client drops its connections for some targets: attempts that are due go on."""
        for target, connection in self._connections.items():
            if is_dropped(target):
                connection.is_pending = False

    def on_dial(self, target: Target) -> Dial | None:
        """Check an attempt to connect, which has to be due; returns the one that was."""
        now_ms = self._now_ms()
        connection = self._connections.setdefault(target, _Connection())
        for each in connection.due:
            if abs(now_ms - each.due_ms) <= SPREAD * backoff_ms(each.failures) + ROUNDING_MS:
                connection.due.remove(each)
                connection.is_pending = True
                return each
        due = ", ".join(f"in {each.due_ms - now_ms} ms after {each.failures} failures" for each in connection.due)
        to = "any broker" if target.address is None else "{}:{}".format(*target.address)
        detail = f"{self._name} connects to {to} now, which is due {due or 'never'}"
        self._report([MemberViolation(WAITS_TO_RECONNECT, detail)])
        return None

    def on_dialled(self, dial: Dial | None, *, is_open: bool) -> None:
        """Note how an attempt to connect has ended."""
        if dial is None:
            return
        connection, now_ms = self._connections[dial.target], self._now_ms()
        connection.is_pending = False
        connection.failures = failures = 0 if is_open else dial.failures + 1
        if any(each.asked_at_ms == now_ms for each in connection.due):
            # The client had dropped this connection, and at this very moment needs another one: it may know of the end
            # of the former attempt or not.
            connection.due.append(Dial(dial.target, now_ms + backoff_ms(failures), failures))


def backoff_ms(failures: int) -> int:
    """How long a client waits after so many failures, one after the other."""
    return min(BACKOFF_MS * 2 ** (failures - 1), BACKOFF_MAX_MS) if failures else 0
