"""The context in which a story runs: its group, its requests, and the state that it expects the group to be in.

anna = await stable_group_of_one(story)
ben = ConformanceMember(story, "ben")
ben_join = await ben.start_rebalance()                                   # JoinGroup, whose response is pending
expect(await anna.heartbeat(), error=E.REBALANCE_IN_PROGRESS)
expect(await anna.join_group(), error=E.NONE, generation_id=2)           # await gives the response
expect(await ben_join, error=E.NONE, generation_id=2, leader=anna.id)
"""

import asyncio
import operator
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

from regroup.conformance.harness.broker_under_test import BAR_TOPIC, BrokerAddress, ConformanceTarget, VersionNotOffered
from regroup.conformance.harness.expect import ExpectationFailed, NotObservable, expect, expect_true
from regroup.conformance.harness.message_types import AnyResponse, response_as
from regroup.conformance.harness.remedy import RESTART_NEEDED, Remedy
from regroup.conformance.harness.routes import CoordinatorRoutes
from regroup.conformance.harness.sent_request import RESPONSE_TIMEOUT_S, SentRequest, StoryExchange
from regroup.protocol.client import DEFAULT_CLIENT_ID, ClientConnection, ConnectionLost
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.message import Message
from regroup.protocol.messages.describe import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

MIN_SHORT_SESSION_TIMEOUT_MS = 1500
"""The least short session timeout in milliseconds: a slow machine needs so long for the first requests of a story."""
MIN_USUAL_SESSION_TIMEOUT_MS = 10_000
USUAL_PER_SHORT_SESSION = 3
"""How many short session timeouts the usual one lasts.

Members with the usual one send nothing while a story waits for up to two short ones.
"""
USUAL_PER_DELAY = 5
"""How many initial rebalance delays the usual session timeout lasts.

Members send nothing while a story starts up to four other groups, each with such a delay.
"""
DEFAULT_REBALANCE_TIMEOUT_MS = 60_000
WAITS_PER_STORY = 12
"""The most initial rebalance delays, or short sessions, for which a story waits one after the other."""

MIN_SESSION_SETTING = "group.min.session.timeout.ms"
MAX_SESSION_SETTING = "group.max.session.timeout.ms"

POLL_INTERVAL_S = 0.03


class StoryContext:
    """The context of one run of one story against one broker. `restart` restarts the broker."""

    def __init__(
        self,
        target: ConformanceTarget,
        group_id: str,
        restart: Callable[["StoryContext"], Awaitable[None]] | None = None,
    ) -> None:
        self.target = target
        self.group_id = group_id
        self.base_group_id = group_id
        self.exchanges: list[StoryExchange] = []
        self._restart = restart
        self._routes = CoordinatorRoutes(target)
        self._idle: dict[BrokerAddress, list[ClientConnection]] = {}
        self._open: list[ClientConnection] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._began_at_s = asyncio.get_running_loop().time()

    # Requests

    def send(
        self,
        request: Message,
        response_type: type[AnyResponse],
        *,
        version: int | None = None,
        sender: str = "client",
        client_id: str | None = DEFAULT_CLIENT_ID,
        on_response: Callable[[AnyResponse], None] = lambda response: None,
    ) -> SentRequest[AnyResponse]:
        """Send a request on a connection that no other request uses. Raises NotObservable if its version is not
        offered.

        `on_response` is called as soon as the response arrives, also when it is not awaited.
        """
        try:
            exchange = StoryExchange(sender, request, self.target.version_for(request, version), self.elapsed_s())
        except VersionNotOffered as reason:
            raise NotObservable(str(reason)) from reason
        self.exchanges.append(exchange)

        async def receive() -> Message:
            response = await self._exchange(exchange, client_id)
            on_response(response_as(response_type, response))
            return response

        task = asyncio.ensure_future(receive())
        self._tasks.append(task)
        return SentRequest(response_type, task, exchange, self.group_state, self.response_timeout_s)

    async def _exchange(self, exchange: StoryExchange, client_id: str | None) -> Message:
        try:
            address = await self._routes.broker_for(self.group_id, exchange.request)
            idle = self._idle.setdefault(address, [])
            connection = idle.pop() if idle else await self._connect(address)
            response = await connection.send(exchange.request, exchange.version, client_id)
        except (OSError, ConnectionLost) as error:
            exchange.failure = str(error)
            raise ConnectionLost(str(error)) from error
        except ProtocolError as error:
            exchange.failure = str(error)
            raise
        exchange.response, exchange.responded_at_s = response, self.elapsed_s()
        self._idle.setdefault(address, []).append(connection)
        return response

    async def expect_all(
        self,
        requests: Iterable[SentRequest[Any]],
        *,
        error: int | None = None,
        timeout_s: float | None = None,
        **fields: object,
    ) -> None:
        """Expect that each response arrives in time and has these values in its fields, as `expect` checks them."""
        for request in requests:
            expect(await request.response_within(timeout_s), error, **fields)

    async def open_connection(self) -> ClientConnection:
        """Open a connection to the coordinator of the story's group, to send bytes that the codec would not write."""
        return await self._connect(await self._routes.broker_for(self.group_id))

    async def _connect(self, address: BrokerAddress) -> ClientConnection:
        connection = await ClientConnection.open(*address)
        self._open.append(connection)
        return connection

    async def close_connections(self) -> None:
        """Close every connection of this story; the next requests find their coordinators again."""
        self._routes.clear()
        for connection in self._open:
            await connection.close()
        self._idle.clear()
        self._open.clear()

    async def close(self) -> None:
        """Cancel pending requests and close every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.close_connections()

    # Time

    def elapsed_s(self) -> float:
        """Seconds since the story began."""
        return asyncio.get_running_loop().time() - self._began_at_s

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds, where there is no response and no state to wait for."""
        await asyncio.sleep(seconds)

    async def wait_until(self, check: Callable[[], Awaitable[None]], timeout_s: float | None = None) -> None:
        """Call `check` again and again until it does not raise ExpectationFailed.

        When the timeout is over, the last ExpectationFailed is raised.
        """
        timeout_s = self.response_timeout_s if timeout_s is None else timeout_s
        deadline_s = self.elapsed_s() + timeout_s
        while True:
            try:
                return await check()
            except ExpectationFailed as failure:
                if self.elapsed_s() > deadline_s:
                    raise ExpectationFailed(f"{failure} (after waiting {timeout_s:g} s)") from failure
            await asyncio.sleep(POLL_INTERVAL_S)

    # The group

    async def describe(self, version: int | None = None) -> DescribedGroup:
        """The group as DescribeGroups returns it."""
        request = DescribeGroupsRequest(groups=[self.group_id])
        response = await self.send(request, DescribeGroupsResponse, version=version, sender="observer")
        expect_true(len(response.groups) == 1, f"DescribeGroups of one group returned {len(response.groups)}")
        return response.groups[0]

    async def group_state(self) -> str:
        """Kafka's name of the group's state, such as `Stable`."""
        return (await self.describe()).group_state

    async def expect_state(self, state: str, members: int | None = None) -> None:
        """Expect that the group is in this state, with this number of members."""
        group = await self.describe()
        expect_true(group.group_state == state, f"the group should be {state}, but is {group.group_state}")
        expect_true(members in (None, len(group.members)), f"expected {members} members, got {len(group.members)}")

    async def wait_for_state(self, state: str, members: int | None = None, timeout_s: float | None = None) -> None:
        """Wait until the group is in this state, with this number of members."""
        await self.wait_until(lambda: self.expect_state(state, members), timeout_s)

    def use_group(self, name: str) -> None:
        """Use another group of this story for all further requests."""
        self.group_id = f"{self.base_group_id}-{name}"

    async def use_group_of_same_coordinator(self, name: str) -> None:
        """Use another group with the same coordinator for all further requests.

        In a cluster, a number may be appended to its name to find such a group.
        """
        coordinator = await self._routes.broker_for(self.group_id)
        self.use_group(name)
        for number in count():
            if await self._routes.broker_for(self.group_id) == coordinator:
                return
            self.use_group(f"{name}-{number}")

    # The broker

    async def use_wrong_broker(self) -> None:
        """Send all further requests to a broker that is not the group's coordinator.

        Raises NotObservable if there is only one broker.
        """
        await self._routes.use_wrong_broker(self.group_id)

    def setting(self, name: str) -> int:
        """The value of a setting of the broker that is an integer. Raises NotObservable if it is not known."""
        value = self.target.int_setting(name)
        if value is None:
            reason = f"the broker does not report {name}; name it with --set {name}=VALUE"
            raise NotObservable(reason, Remedy(options=(f"--set {name}=VALUE",)))
        return value

    @property
    def short_session_timeout_ms(self) -> int:
        """A session timeout that expires soon, but leaves a slow machine enough time for the first requests."""
        return max(MIN_SHORT_SESSION_TIMEOUT_MS, self.target.setting_or_default(MIN_SESSION_SETTING))

    @property
    def usual_session_timeout_ms(self) -> int:
        """A session timeout that does not expire while the story waits for short sessions, or for initial delays."""
        short_ms, delay_ms = self.short_session_timeout_ms, self.initial_rebalance_delay_ms
        return max(MIN_USUAL_SESSION_TIMEOUT_MS, USUAL_PER_SHORT_SESSION * short_ms, USUAL_PER_DELAY * delay_ms)

    def check_session_timeout(self, timeout_ms: int) -> None:
        """Raise NotObservable if the broker would refuse this session timeout: no story expects that of its members."""
        for name, is_refused in ((MIN_SESSION_SETTING, operator.lt), (MAX_SESSION_SETTING, operator.gt)):
            if is_refused(timeout_ms, bound_ms := self.target.setting_or_default(name)):
                reason = f"{name} is {bound_ms}, but the story needs a session timeout of {timeout_ms} ms"
                raise NotObservable(reason, Remedy.setting(name, timeout_ms))

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """The broker's `group.initial.rebalance.delay.ms`; Kafka's default, 3 s, if it is not known."""
        return self.target.setting_or_default("group.initial.rebalance.delay.ms")

    @property
    def response_timeout_s(self) -> float:
        """Seconds that a response may take, or a group to reach a state: an initial delay may precede it."""
        return RESPONSE_TIMEOUT_S + self.initial_rebalance_delay_ms / 1000

    @property
    def waiting_allowance_s(self) -> float:
        """Seconds that a story may take in addition to its limit, since it waits for several delays and sessions."""
        beyond_ms = self.short_session_timeout_ms - MIN_SHORT_SESSION_TIMEOUT_MS
        return (WAITS_PER_STORY * (self.initial_rebalance_delay_ms + beyond_ms)) / 1000

    async def restart_coordinator(self, *, close_connections: bool = True) -> None:
        """Restart the broker. Its connections are closed before or, without `close_connections`, by the restart.

        Raises NotObservable if the run has no command for it.
        """
        if self._restart is None:
            reason = "no command restarts this broker; name one with --restart COMMAND"
            raise NotObservable(reason, RESTART_NEEDED)
        if close_connections:
            await self.close_connections()
        await self._restart(self)
        await self.close_connections()


def subscription_of(*topics: str) -> bytes:
    """A consumer's subscription to these topics, as JoinGroup carries it."""
    return encode_subscription(Subscription(version=1, topics=topics))


DEFAULT_ASSIGNORS: dict[str, bytes] = {"range": subscription_of(BAR_TOPIC), "roundrobin": subscription_of(BAR_TOPIC)}
