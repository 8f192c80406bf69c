"""Endpoints for the process, its brokers, their group coordinators, and crashed clients."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, Done, NoInput, act, look
from regroup.control.endpoints.fields import BrokerNumber, ClientName, GroupName
from regroup.control.endpoints.group_answers import StoryAnswer
from regroup.control.errors import Status

MAX_DELAY_S = 3_600.0


class EmulatorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the process that runs the brokers."""

    running: Annotated[bool, Meta(description="False from a kill to the restart.")]
    bootstrap_servers: Annotated[str, Meta(description="The addresses that the clients are given.")]
    brokers: int
    clock: Annotated[Literal["real"], Meta(description="A clock that is turned by hand is for tests in Python.")]
    now_ms: Annotated[int, Meta(description="The time of the brokers, in epoch milliseconds.")]
    started_at_ms: int
    position: Annotated[int, Meta(description="The position of the last event; null while no broker runs.")] | None
    crashed_clients: tuple[str, ...]
    waiting_requests: Annotated[int, Meta(description="Requests to this port that wait for something.")]


class BrokerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A broker: its address, and whether it runs."""

    broker: int
    host: Annotated[str, Meta(description="Where it listens.")]
    port: int
    running: bool
    delay_s: Annotated[float, Meta(description="How long it waits before it handles a request.")]
    connections: int


class CoordinatorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The broker that coordinates a group."""

    group: str
    broker: int


class BrokerInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names the broker that an endpoint is to show or change, by its node id."""

    broker: BrokerNumber


class SlowBrokerInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker, and the delay with which it is to handle requests."""

    broker: BrokerNumber
    delay_s: Annotated[float, Meta(ge=0, le=MAX_DELAY_S, description="Seconds before each request; 0 ends the delay.")]


class CoordinatorInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names the group whose coordinator an endpoint is to show or change. The group need not exist."""

    group: GroupName


class MoveCoordinatorInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group, and the broker that is to coordinate it."""

    group: GroupName
    broker: Annotated[int, Meta(ge=0, description="Without it, the next broker that runs.")] | None = None


class LoadingInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group whose coordinator is to load, and for how long."""

    group: GroupName
    seconds: (
        Annotated[float, Meta(ge=0, le=86_400, description="Without it, until /coordinator/finish-loading.")] | None
    ) = None


class ClientInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names the client that is to crash or to be answered again."""

    client: ClientName


class SinceInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position in the history after which changes are asked for."""

    since: Annotated[int, Meta(ge=0, description="Only groups with events behind this position.")] = 0


class NameInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text with which the new name is to begin."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]


class NameAnswer(msgspec.Struct, frozen=True):
    """A name that this process has not returned before."""

    name: str


async def process(controlled: ControlledEmulator, wanted: NoInput) -> EmulatorAnswer:
    """Show the process: whether it runs, its addresses, its time and the end of its history."""
    emulator = controlled.emulator
    running = emulator.is_running
    return EmulatorAnswer(
        running=running,
        bootstrap_servers=emulator.bootstrap_servers,
        brokers=emulator.options.cluster.brokers,
        clock="real",
        now_ms=emulator.now_ms(),
        started_at_ms=emulator.started_at_ms,
        position=emulator.position() if running else None,
        crashed_clients=emulator.interference.crashed_clients,
        waiting_requests=controlled.waits,
    )


async def kill(controlled: ControlledEmulator, wanted: NoInput) -> Done:
    """End the brokers as a killed process does: connections break, what is not durable is lost, and so are the records
    of topics. This port goes on; so do fault rules, crashed clients and recorded exchanges."""
    async with controlled.changing:
        await controlled.emulator.kill()
    return Done()


async def restart(controlled: ControlledEmulator, wanted: NoInput) -> Done:
    """Start the brokers again on the store, at the same addresses."""
    async with controlled.changing:
        await controlled.emulator.restart()
    return Done()


async def story(controlled: ControlledEmulator, wanted: SinceInput) -> StoryAnswer:
    """Show the last events and requests of the groups that have changed since a position, as tables for people."""
    return StoryAnswer(await controlled.emulator.story(since=wanted.since))


async def unique_name(controlled: ControlledEmulator, wanted: NameInput) -> NameAnswer:
    """Return a name that this process has not returned before, for tests that share it."""
    return NameAnswer(controlled.emulator.unique_name(wanted.name))


async def brokers(controlled: ControlledEmulator, wanted: NoInput) -> tuple[BrokerAnswer, ...]:
    """List the brokers."""
    cluster, delays_s = controlled.emulator.cluster, controlled.emulator.interference.delays_s
    return tuple(
        BrokerAnswer(
            broker=broker.node_id,
            host=broker.address[0],
            port=broker.address[1],
            running=broker.node_id in cluster.state.nodes,
            delay_s=delays_s.get(broker.node_id, 0.0),
            connections=len(broker.connections()),
        )
        for broker in cluster.brokers
    )


async def stop_broker(controlled: ControlledEmulator, wanted: BrokerInput) -> Done:
    """Stop a broker: the next one leads its partitions and loads its groups."""
    await controlled.emulator.stop_broker(wanted.broker)
    return Done()


async def start_broker(controlled: ControlledEmulator, wanted: BrokerInput) -> Done:
    """Start a stopped broker on its address: it leads its partitions again and loads its groups."""
    await controlled.emulator.start_broker(wanted.broker)
    return Done()


async def slow_broker(controlled: ControlledEmulator, wanted: SlowBrokerInput) -> Done:
    """Let a broker wait before it handles each request."""
    await controlled.emulator.slow_broker(wanted.broker, wanted.delay_s)
    return Done()


async def coordinator(controlled: ControlledEmulator, wanted: CoordinatorInput) -> CoordinatorAnswer:
    """Show which broker coordinates a group."""
    return CoordinatorAnswer(group=wanted.group, broker=await controlled.emulator.coordinator_of(wanted.group))


async def move_coordinator(controlled: ControlledEmulator, wanted: MoveCoordinatorInput) -> CoordinatorAnswer:
    """Move the coordinator of a group to another broker. The groups and partitions with the same leader move too."""
    broker = await controlled.emulator.move_coordinator(wanted.group, wanted.broker)
    return CoordinatorAnswer(group=wanted.group, broker=broker)


async def begin_loading(controlled: ControlledEmulator, wanted: LoadingInput) -> Done:
    """Let the coordinator of a group answer COORDINATOR_LOAD_IN_PROGRESS, for some seconds or until it is ended."""
    await controlled.emulator.begin_loading(wanted.group, wanted.seconds)
    return Done()


async def finish_loading(controlled: ControlledEmulator, wanted: CoordinatorInput) -> Done:
    """End the loading of the coordinator of a group."""
    await controlled.emulator.finish_loading(wanted.group)
    return Done()


async def crash_client(controlled: ControlledEmulator, wanted: ClientInput) -> Done:
    """Close the connections of a client, answer nothing on new ones, and end its sessions now."""
    await controlled.emulator.crash_client(wanted.client)
    return Done()


async def revive_client(controlled: ControlledEmulator, wanted: ClientInput) -> Done:
    """Answer a crashed client again."""
    await controlled.emulator.revive_client(wanted.client)
    return Done()


_GONE, _NO = Status.NOT_FOUND, Status.REFUSED
ENDPOINTS: tuple[ControlEndpoint, ...] = (
    look("/emulator", process),
    act("/emulator/kill", kill),
    act("/emulator/restart", restart, _NO),
    look("/story", story),
    act("/unique-name", unique_name, name="orders"),
    look("/brokers", brokers),
    act("/broker/stop", stop_broker, broker=1),
    act("/broker/start", start_broker, _NO, broker=1),
    act("/broker/slow", slow_broker, broker=1, delay_s=0.5),
    look("/coordinator", coordinator, group="billing"),
    act("/coordinator/move", move_coordinator, _NO, group="billing", broker=0),
    act("/coordinator/begin-loading", begin_loading, group="billing", seconds=2),
    act("/coordinator/finish-loading", finish_loading, group="billing"),
    act("/client/crash", crash_client, _GONE, _NO, client="second"),
    act("/client/revive", revive_client, _GONE, _NO, client="second"),
)
