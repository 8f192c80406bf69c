"""What a test does to requests before the handlers get them: it crashes clients, slows brokers, and adds
fault rules.
"""

import asyncio
from collections.abc import Callable, Iterable

from regroup.server.broker import Broker
from regroup.server.faults.gate import FaultGate, FaultRules
from regroup.server.net.exchange import Exchange
from regroup.testing.errors import ActRefused
from regroup.testing.groups.views import GroupView, find_member


class Interference:
    """The crashed clients, slow brokers and fault rules of an emulator. They stay in effect when the brokers are killed
    and restarted."""

    def __init__(self, faults: FaultRules) -> None:
        self.faults = faults
        self._unanswered: dict[str, list[Callable[[], None]]] = {}
        """The requests of each crashed client that have not been answered, as functions that let them go on."""
        self._crashed_as: dict[str, str] = {}
        """The client ids of crashed clients, by the names with which a test has crashed them."""
        self.delays_s: dict[int, float] = {}
        """How many seconds each slow broker waits before it handles a request."""

    def is_crashed(self, client_id: str) -> bool:
        return client_id in self._unanswered

    @property
    def crashed_clients(self) -> tuple[str, ...]:
        """The client ids of crashed clients, which get no answers."""
        return tuple(self._unanswered)

    def crashed_client(self, name: str) -> str:
        """The client id of a crashed client, given that id or the name with which it was crashed; empty if no such
        client is crashed."""
        client_id = self._crashed_as.get(name, name)
        return client_id if self.is_crashed(client_id) else ""

    def crash(self, client_id: str, name: str) -> None:
        """Answer no request of this client from now on.

        `name` is what the test calls it, such as a member id that will soon not exist; `crashed_client` finds it by
        this name.
        """
        self._unanswered.setdefault(client_id, [])
        self._crashed_as[name] = client_id

    def revive(self, client_id: str) -> None:
        """Answer the client again: handle the requests that it has sent on connections that are still open, and all
        later ones."""
        for proceed in self._unanswered.pop(client_id, ()):
            proceed()

    def leave_unanswered(self, client_id: str, proceed: Callable[[], None]) -> None:
        self._unanswered[client_id].append(proceed)


class BrokerGate:
    """Gets each request of one broker before it is handled, and answers, delays or drops it as the interference
    demands."""

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
    """The client id that `name` stands for: a client id itself, or the instance id or member id of a member.

    Raises UnknownMember, and ActRefused if another member has the same client id.
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
