"""The interface of a gate between connections and handlers, which lets a request through at once, later, or never.

Observers (`request_observer.py`) see an exchange when it is finished; a gate acts before the handler is called.
"""

from collections.abc import Callable
from typing import Protocol

from regroup.server.net.exchange import Exchange


class RequestGate(Protocol):
    """Decides when, and whether, the requests of one broker reach their handlers. A broker without a gate calls its
    handlers at once."""

    def admit(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """Decide over a request: call `proceed` to pass it to its handler, now or later, or answer it with `exchange`.

        Until one of them happens the client waits, and the connection handles no other request. `proceed` has no
        effect once the connection is lost.
        """
        ...

    def may_stop(self, exchange: Exchange) -> bool:
        """Whether the gate might hold, answer or drop a request equal to this one if it came again. The response to
        such a request is not cached.

        When the result changes from False to True, `Connection.forget_cached_response` must be called.
        """
        ...
