"""The place between connections and handlers from which every exchange of every broker can be seen.

    cluster.observers.append(observer)

An exchange comes here when it is finished: `exchange.request` is the request as the handler got it, and the response
is the message before it is encoded. Heartbeats that a connection answers from its cache are not decoded again, so they
do not come here; all of them are accepted ones.
"""

from typing import Protocol, TypeAlias

from regroup.protocol.message import Message
from regroup.server.net.exchange import Exchange


class RequestObserver(Protocol):
    """Sees exchanges. It must return at once, and cannot change them."""

    def __call__(self, exchange: Exchange, response: Message | None) -> object:
        """An exchange is finished; `response` is None for a request that expects none."""
        ...


RequestObservers: TypeAlias = list[RequestObserver]
"""The observers of a cluster, shared by all of its brokers; one may be added or removed at any time."""
