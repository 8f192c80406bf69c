"""What a test does to the requests of clients before the handlers get them: crashed clients, slow brokers, faults."""

import asyncio
from collections.abc import Callable, Iterable

from regroup.server.broker import Broker
from regroup.server.faults.gate import FaultGate, FaultRules
from regroup.server.net.exchange import Exchange
from regroup.testing.errors import ActRefused
from regroup.testing.groups.views import GroupView, find_member


class Interference:
    """The crashed clients, slow brokers and fault rules of an emulator. A kill does not end them."""

    def __init__(self, faults: FaultRules) -> None:
        self.faults = faults
        self._unanswered: dict[str, list[Callable[[], None]]] = {}
        """The requests of each crashed client that nothing has answered."""
        self._crashed_as: dict[str, str] = {}
        """The client ids of crashed clients by the names that they were crashed by."""
        self.delays_s: dict[int, float] = {}
        """How long each slow broker waits before it handles a request."""

    def is_crashed(self, client_id: str) -> bool:
        return client_id in self._unanswered

    @property
    def crashed_clients(self) -> tuple[str, ...]:
        """The client ids that get no answers."""
        return tuple(self._unanswered)

    def crashed_client(self, name: str) -> str:
        """The client id of a crashed client, by that or by the name it was crashed by; empty for any other."""
        client_id = self._crashed_as.get(name, name)
        return client_id if self.is_crashed(client_id) else ""

    def crash(self, client_id: str, name: str) -> None:
        """Answer nothing to this client from now on. `name` may be the id of its member, which soon exists no more."""
        self._unanswered.setdefault(client_id, [])
        self._crashed_as[name] = client_id

    def revive(self, client_id: str) -> None:
        """Handle the requests that the client has sent on connections that are still open, and all later ones."""
        for proceed in self._unanswered.pop(client_id, ()):
            proceed()

    def leave_unanswered(self, client_id: str, proceed: Callable[[], None]) -> None:
        self._unanswered[client_id].append(proceed)


class BrokerGate:
    """The gate of one broker: a RequestGate."""

    def __init__(self, node_id: int, interference: Interference) -> None:
        self._node_id = node_id
        self._interference = interference
        self._faults = FaultGate(node_id, interference.faults)

    def admit(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        client_id = exchange.header.client_id or ""
        delay_s = self._interference.delays_s.get(self._node_id, 0.0)
        if self._interference.is_crashed(client_id):
            self._interference.leave_unanswered(client_id, proceed)
        elif delay_s:
            exchange.is_handled_if_lost = True
            asyncio.get_running_loop().call_later(delay_s, self._faults.admit, exchange, proceed)
        else:
            self._faults.admit(exchange, proceed)

    def may_stop(self, exchange: Exchange) -> bool:
        interference = self._interference
        return (
            interference.is_crashed(exchange.header.client_id or "")
            or self._node_id in interference.delays_s
            or self._faults.may_stop(exchange)
        )


def abort_client(brokers: list[Broker], client_id: str) -> None:
    """Close every connection on which this client has sent a request."""
    for broker in brokers:
        for connection in broker.connections():
            if connection.client_id == client_id:
                connection.abort()


def find_client_id(brokers: list[Broker], groups: Iterable[GroupView], name: str) -> str:
    """The client id itself, or that of the member with this instance id or member id.

    Raises UnknownMember, and ActRefused where another member has the same client id.
    """
    members = [member for group in groups for member in group.members]
    connected = {connection.client_id for broker in brokers for connection in broker.connections()}
    if name in connected | {member.client_id for member in members}:
        return name
    member = find_member(members, name, "any group")
    namesakes = [each.member_id for each in members if each.client_id == member.client_id]
    if len(namesakes) > 1:
        raise ActRefused(
            f"{len(namesakes)} members have the client id {member.client_id!r}, and it identifies connections: "
            "give each client a client id of its own, or name this one to crash them all"
        )
    return member.client_id
