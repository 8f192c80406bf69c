"""The interface of observers, which are called with every decoded exchange of every broker once it has ended.

    cluster.observers.append(observer)

An observer is called when an exchange is finished: `exchange.request` is the request as the handler got it, and the
response is the message before it is encoded, None for a request that expects none. It must return at once, and cannot
change them. Heartbeats that a connection answers from its cache are not decoded again, so they do not come here; all of
them are accepted ones.
"""

from collections.abc import Callable
from typing import TypeAlias

from regroup.protocol.message import Message
from regroup.server.net.exchange import Exchange

RequestObserver: TypeAlias = Callable[[Exchange, Message | None], object]

RequestObservers: TypeAlias = list[RequestObserver]
"""The observers of a cluster, shared by all of its brokers; one may be added or removed at any time."""
