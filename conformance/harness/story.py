"""The vocabulary of the stories: a group of its own, members with names, requests that are answered or wait.

    anna = await alone(tell)                         # Anna is the only member of a stable group
    ben = Member(tell, "ben")
    waiting = await ben.knocks()                     # has an id, asks to join, and is kept waiting
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)

A request in flight is a `Waiting`: `await` gives its answer, `is_parked()` holds it to be without one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any

from regroup.conformance.harness.connection import CLIENT_ID, Answer, Connection, ConnectionLost
from regroup.conformance.harness.expect import Differs, NotObservable, that
from regroup.conformance.harness.pending import PATIENCE_SECONDS, Exchange, Waiting
from regroup.conformance.harness.routes import Routes
from regroup.conformance.harness.target import BAR, Address, Target, VersionNotSpoken
from regroup.protocol.apis import APIS
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.message import Message
from regroup.protocol.messages.describe import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000

POLL_SECONDS = 0.03


class Story:
    """One telling of one case against one broker."""

    def __init__(self, target: Target, group: str, pause: Callable[["Story"], Awaitable[None]] | None = None) -> None:
        self.target = target
        self.group = group
        self.first_group = group
        self.exchanges: list[Exchange] = []
        self._pause = pause
        self._routes = Routes(target)
        self._idle: dict[Address, list[Connection]] = {}
        self._open: list[Connection] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._began = asyncio.get_running_loop().time()

    # Asking

    def ask(
        self,
        request: Message,
        kind: type[Answer],
        *,
        version: int | None = None,
        speaker: str = "somebody",
        client_id: str | None = CLIENT_ID,
    ) -> Waiting[Answer]:
        """Send a request on a connection of its own. NotObservable where the broker does not speak the version."""
        try:
            spoken = self.target.version_for(request, version)
        except VersionNotSpoken as reason:
            raise NotObservable(str(reason)) from reason
        exchange = Exchange(speaker, request, spoken, self.now())
        self.exchanges.append(exchange)
        task = self._begin(self._talk(exchange, client_id))
        return Waiting(kind, task, exchange, self.state)

    async def _talk(self, exchange: Exchange, client_id: str | None) -> Message:
        try:
            address = await self._routes.find(self.group, exchange.request)
            connection = await self._line(address)
            answer = await connection.ask(exchange.request, exchange.version, client_id)
        except (OSError, ConnectionLost) as error:
            exchange.failure = str(error)
            raise ConnectionLost(str(error)) from error
        except ProtocolError as error:
            exchange.failure = str(error)
            raise
        exchange.answer, exchange.answered_at = answer, self.now()
        self._idle.setdefault(address, []).append(connection)
        return answer

    async def _line(self, address: Address) -> Connection:
        if idle := self._idle.get(address):
            return idle.pop()
        return await self._open_line(address)

    async def raw_connection(self) -> Connection:
        """For what no codec would write: to the coordinator of the story's group."""
        return await self._open_line(await self._routes.find(self.group))

    async def _open_line(self, address: Address) -> Connection:
        connection = await Connection.open(*address)
        self._open.append(connection)
        return connection

    def _begin(self, work: Coroutine[Any, Any, Message]) -> "asyncio.Task[Message]":
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    async def close(self) -> None:
        """Hang up everywhere."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._open:
            await connection.close()

    def now(self) -> float:
        """Seconds since the story began."""
        return asyncio.get_running_loop().time() - self._began

    # Looking

    async def describe(self, group: str | None = None, version: int | None = None) -> DescribedGroup:
        """The group as DescribeGroups shows it."""
        request = DescribeGroupsRequest(groups=[group or self.group])
        answer = await self.ask(request, DescribeGroupsResponse, version=version, speaker="observer")
        that(len(answer.groups) == 1, f"DescribeGroups for one group answered with {len(answer.groups)}")
        return answer.groups[0]

    async def state(self) -> str:
        """`Stable`, `Empty` and so on, in Kafka's words."""
        return (await self.describe()).group_state

    async def is_in(self, state: str, members: int | None = None) -> None:
        """Differs unless the group is in this state now, with so many members."""
        group = await self.describe()
        that(group.group_state == state, f"the group should be {state}, and is {group.group_state}")
        that(members in (None, len(group.members)), f"{members} members expected, {len(group.members)} are shown")

    async def becomes(self, state: str, members: int | None = None, within: float = PATIENCE_SECONDS) -> None:
        """Wait until the group is in this state, with so many members."""
        await self.until(lambda: self.is_in(state, members), within)

    async def until(self, comes_true: Callable[[], Awaitable[None]], within: float = PATIENCE_SECONDS) -> None:
        """Try again and again until it no longer raises Differs, or patience is over."""
        deadline = self.now() + within
        while True:
            try:
                return await comes_true()
            except Differs as difference:
                if self.now() > deadline:
                    raise Differs(f"{difference} (after waiting {within:g} s)") from difference
            await asyncio.sleep(POLL_SECONDS)

    async def passes(self, seconds: float) -> None:
        """Time passes, where nothing else can be waited for."""
        await asyncio.sleep(seconds)

    async def hangs_up(self) -> None:
        """Every connection of this story is lost; the next request looks for its coordinator and opens a new one."""
        self._routes.forget()
        for connection in self._open:
            await connection.close()
        self._idle.clear()
        self._open.clear()

    def turns_to_group(self, name: str) -> None:
        """What follows happens in another group of this story."""
        self.group = f"{self.first_group}-{name}"

    async def turns_to_neighbour(self, name: str) -> None:
        """Likewise, and the coordinator stays the same; in a cluster a number may follow the name."""
        home = await self._routes.find(self.group)
        self.turns_to_group(name)
        for number in count():
            if await self._routes.find(self.group) == home:
                return
            self.turns_to_group(f"{name}-{number}")

    async def turns_to_another_broker(self) -> None:
        """What follows is asked of a broker that does not coordinate the group. NotObservable where there is none."""
        await self._routes.go_astray(self.group)

    # What the broker is set to

    def setting(self, name: str) -> int:
        """A number from the settings. NotObservable where it is not known."""
        value = self.target.number(name)
        if value is None:
            raise NotObservable(f"the broker does not tell {name} (say it with --set {name}=…)")
        return value

    @property
    def short_session_ms(self) -> int:
        """A session timeout that is over soon, yet not before a slow machine has set the scene."""
        shortest = self.target.number("group.min.session.timeout.ms")
        return max(1500, 6000 if shortest is None else shortest)

    @property
    def initial_delay_ms(self) -> int:
        """How long the first rebalance of an empty group waits; 3 s where the broker does not tell."""
        delay = self.target.number("group.initial.rebalance.delay.ms")
        return 3000 if delay is None else delay

    async def coordinator_restarts(self, *, hanging_up: bool = True) -> None:
        """The broker goes down and comes back. NotObservable where nobody can restart it."""
        if self._pause is None:
            raise NotObservable("nobody can restart this broker (say how with --restart COMMAND)")
        if hanging_up:
            await self.hangs_up()
        await self._pause(self)
        await self.hangs_up()


def subscribed_to(*topics: str) -> bytes:
    """A consumer's subscription, as it stands in JoinGroup."""
    return encode_subscription(Subscription(version=1, topics=topics))


TWO_ASSIGNORS: dict[str, bytes] = {"range": subscribed_to(BAR), "roundrobin": subscribed_to(BAR)}


def api_versions(request: type[Message]) -> range:
    """Every version that we can write."""
    versions = APIS[request.api_key].versions
    return range(versions.first, versions.last + 1)
