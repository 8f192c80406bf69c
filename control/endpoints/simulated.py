"""Endpoints for simulated members: they are added, disturbed and listed."""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, Done, NoInput, act, look
from regroup.control.endpoints.fields import MAX_NAME, GroupName, PartitionOfTopic, TopicName
from regroup.control.errors import Status
from regroup.control.simulated import MAX_PAUSE_S, NewMember, RunningMember
from regroup.coordinator.group import GroupKind
from regroup.members.faults import MemberFaultKind, parse_fault
from regroup.testing.errors import ActRefused

SimulatedName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, description="The client id of a simulated member.")
]
TimeoutMs: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class NewMemberInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A simulated member to start."""

    group: GroupName
    topics: Annotated[tuple[TopicName, ...], Meta(max_length=100, description="What it subscribes to.")] = ()
    pattern: Annotated[
        str,
        Meta(max_length=1_000, description="In place of topics, in the consumer protocol: a regular expression (RE2)."),
    ] = ""
    client_id: Annotated[
        str,
        Meta(max_length=1_000, description="No other simulated member may have it; without it `member-1` and so on."),
    ] = ""
    instance_id: Annotated[str, Meta(max_length=249, description="Makes it a static member (KIP-345).")] | None = None
    protocol: (
        Annotated[GroupKind, Meta(description="`classic` or `consumer`; without it that of the group.")] | None
    ) = None
    assignor: Annotated[
        str, Meta(max_length=249, description="Of the classic protocol: `range`, `cooperative-sticky`, …")
    ] = "range"
    remote_assignor: (
        Annotated[str, Meta(max_length=249, description="Of the consumer protocol: `uniform` or `range`.")] | None
    ) = None
    session_timeout_ms: TimeoutMs = 10_000
    heartbeat_interval_ms: Annotated[int, Meta(ge=10, le=2**31 - 1)] = 1_000
    max_poll_interval_ms: TimeoutMs = 300_000
    process_ms: (
        Annotated[
            float, Meta(ge=0, le=3_600_000, description="The time for each record; without it no records are read.")
        ]
        | None
    ) = None


class SimulatedInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a simulated member."""

    client: SimulatedName


class PauseInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulated member to pause, and for how long."""

    client: SimulatedName
    seconds: Annotated[float, Meta(gt=0, le=MAX_PAUSE_S, description="A later resume ends it before.")] = MAX_PAUSE_S


class SlowInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulated member that is to be slow to rejoin, and by how much."""

    client: SimulatedName
    seconds: Annotated[float, Meta(ge=0, le=MAX_PAUSE_S, description="The time outside of poll(); 0 ends it.")]


class RestartInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulated member to restart, and after what time."""

    client: SimulatedName
    seconds: Annotated[float, Meta(gt=0, le=MAX_PAUSE_S, description="How long no process runs.")] = 5.0


class MemberFaultInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault to inject into a simulated member."""

    client: SimulatedName
    fault: Annotated[
        str, Meta(max_length=100, description="As of `regroup members`, without a trigger: `zombie`, `slow-sync:5s`.")
    ]


class SimulatedMemberAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a simulated member as the member itself sees it, which may differ from what its coordinator has."""

    client_id: str
    group: str
    topics: tuple[str, ...]
    pattern: str
    instance_id: str | None
    protocol: GroupKind
    assignor: str
    remote_assignor: str | None
    member_id: str
    generation: Annotated[int, Meta(description="Of its last JoinGroup; -1 without one.")]
    state: Annotated[str, Meta(description="`unjoined`, `preparing`, `completing` or `stable`.")]
    condition: Annotated[
        str, Meta(description="`running`, `paused`, `restarting`, `zombie`, `crashed`, `left` or `failed`.")
    ]
    is_leader: bool
    partitions: Annotated[
        tuple[PartitionOfTopic, ...], Meta(description="What it believes it owns; nothing once it has ended.")
    ]
    slow_s: Annotated[float, Meta(description="How long a rebalance finds it outside of poll().")]
    last_error: str
    processed: Annotated[int, Meta(description="Records that it has processed.")]
    processed_twice: Annotated[int, Meta(description="Those that it or another had processed before.")]


def simulated_answer(running: RunningMember) -> SimulatedMemberAnswer:
    view, plan = running.view, running.plan
    return SimulatedMemberAnswer(
        client_id=plan.client_id,
        group=plan.group,
        topics=plan.topics,
        pattern=plan.pattern,
        instance_id=plan.instance_id,
        protocol=plan.protocol,
        assignor=plan.assignor,
        remote_assignor=plan.remote_assignor,
        member_id=view.member_id,
        generation=view.generation_id,
        state=view.state.value,
        condition=view.condition or "running",
        is_leader=view.is_leader,
        partitions=() if running.member.is_stopped else tuple(PartitionOfTopic(*p) for p in sorted(view.partitions)),
        slow_s=running.slow_s,
        last_error=view.last_error,
        processed=view.processed_count,
        processed_twice=view.duplicate_count,
    )


async def simulated_members(controlled: ControlledEmulator, wanted: NoInput) -> tuple[SimulatedMemberAnswer, ...]:
    """List the simulated members of this process, with what each believes it owns."""
    return tuple(map(simulated_answer, controlled.members.all()))


async def add_member(controlled: ControlledEmulator, wanted: NewMemberInput) -> SimulatedMemberAnswer:
    """Start a simulated member, which joins over TCP as any client does. It ends with the process."""
    plan = NewMember(
        group=wanted.group,
        topics=wanted.topics,
        pattern=wanted.pattern,
        client_id=wanted.client_id or controlled.members.new_client_id(),
        instance_id=wanted.instance_id,
        protocol=wanted.protocol or (await controlled.emulator.group(wanted.group).now()).kind,
        assignor=wanted.assignor,
        remote_assignor=wanted.remote_assignor,
        session_timeout_ms=wanted.session_timeout_ms,
        heartbeat_interval_ms=wanted.heartbeat_interval_ms,
        max_poll_interval_ms=wanted.max_poll_interval_ms,
        process_ms=wanted.process_ms,
    )
    return simulated_answer(controlled.members.add(plan))


async def crash_member(controlled: ControlledEmulator, wanted: SimulatedInput) -> SimulatedMemberAnswer:
    """Kill a simulated member: its connections close, and the coordinator removes it when its session ends."""
    running = controlled.members.find_alive(wanted.client)
    await running.crash()
    return simulated_answer(running)


async def leave_group(controlled: ControlledEmulator, wanted: SimulatedInput) -> SimulatedMemberAnswer:
    """Close the consumer of a simulated member, which leaves the group; a static member keeps its place."""
    running = controlled.members.find_alive(wanted.client)
    if (condition := running.view.condition) not in ("", "paused"):
        raise ActRefused(f"{wanted.client!r} cannot leave: its condition is {condition}")
    await running.leave()
    return simulated_answer(running)


async def pause_member(controlled: ControlledEmulator, wanted: PauseInput) -> SimulatedMemberAnswer:
    """Stop a simulated member as a long garbage collection does; it goes on where it stopped."""
    running = controlled.members.find_alive(wanted.client)
    running.inject(MemberFaultKind.PAUSE, wanted.seconds)
    return simulated_answer(running)


async def resume_member(controlled: ControlledEmulator, wanted: SimulatedInput) -> SimulatedMemberAnswer:
    """End the pause of a simulated member."""
    running = controlled.members.find_alive(wanted.client)
    running.resume()
    return simulated_answer(running)


async def slow_member(controlled: ControlledEmulator, wanted: SlowInput) -> SimulatedMemberAnswer:
    """Let each rebalance find a simulated member outside of poll(), where it stays for so long; heartbeats go on."""
    running = controlled.members.find_alive(wanted.client)
    running.be_slow(wanted.seconds)
    return simulated_answer(running)


async def restart_member(controlled: ControlledEmulator, wanted: RestartInput) -> SimulatedMemberAnswer:
    """Kill the process of a simulated member and start it again; a static member keeps its instance id."""
    running = controlled.members.find_alive(wanted.client)
    running.inject(MemberFaultKind.RESTART, wanted.seconds)
    return simulated_answer(running)


async def start_member(controlled: ControlledEmulator, wanted: SimulatedInput) -> SimulatedMemberAnswer:
    """Start a simulated member again that has crashed, left or failed."""
    return simulated_answer(controlled.members.add(controlled.members.find(wanted.client).plan))


async def member_fault(controlled: ControlledEmulator, wanted: MemberFaultInput) -> SimulatedMemberAnswer:
    """Let a fault of a simulated member begin now, one of those of `regroup members`."""
    fault = parse_fault(wanted.fault)
    if fault.trigger is not None:
        raise ValueError(f"invalid fault: {wanted.fault!r}; it begins at once, so leave the trigger out")
    running = controlled.members.find_alive(wanted.client)
    running.inject(fault.kind, None if fault.duration_ms is None else fault.duration_ms / 1000)
    return simulated_answer(running)


async def remove_simulated(controlled: ControlledEmulator, wanted: SimulatedInput) -> Done:
    """Kill a simulated member, if it runs, and take it off the list."""
    await controlled.members.remove(wanted.client)
    return Done()


_GONE, _NO = Status.NOT_FOUND, Status.REFUSED
ENDPOINTS: tuple[ControlEndpoint, ...] = (
    look("/simulated-members", simulated_members),
    act("/simulated-member/add", add_member, _NO, group="billing", topics=["orders"], client_id="anna"),
    act("/simulated-member/crash", crash_member, _GONE, _NO, client="anna"),
    act("/simulated-member/leave", leave_group, _GONE, _NO, client="anna"),
    act("/simulated-member/pause", pause_member, _GONE, _NO, client="anna", seconds=20),
    act("/simulated-member/resume", resume_member, _GONE, _NO, client="anna"),
    act("/simulated-member/slow", slow_member, _GONE, _NO, client="anna", seconds=5),
    act("/simulated-member/restart", restart_member, _GONE, _NO, client="anna", seconds=5),
    act("/simulated-member/start", start_member, _GONE, _NO, client="anna"),
    act("/simulated-member/fault", member_fault, _GONE, _NO, client="anna", fault="zombie"),
    act("/simulated-member/remove", remove_simulated, _GONE, client="anna"),
)
