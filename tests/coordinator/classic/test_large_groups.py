"""Classic groups of many members: one member's JoinGroup does not look at all the others."""

from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.decide import decide
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, JoinPhase, Member, MemberProfile
from regroup.coordinator.layered_mapping import LAYERED_FROM
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from tests.counted_calls import calls_of

SETTINGS = CoordinatorSettings()


def profile() -> MemberProfile:
    """Equal for all members, but never the same object, as in requests of different members."""
    return MemberProfile(
        client_id="c",
        client_host="h",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        supported_protocols=(SupportedProtocol("range", bytes([0, 1])),),
    )


def rebalancing(size: int, joined: int) -> Group:
    """A group in its join phase, in which the first members have joined."""
    members = {
        f"m{index}": Member(
            member_id=f"m{index}", profile=profile(), awaiting=AwaitedResponse.JOIN if index < joined else None
        )
        for index in range(size)
    }
    return Group(
        group_id="g",
        state=GroupState.PREPARING_REBALANCE,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="m0",
        members=members,
        join_phase=JoinPhase(60_000, is_initial=False),
    )


def rejoin(group: Group, member_id: str) -> JoinGroup:
    return JoinGroup(
        group_id="g",
        at_ms=1,
        member_id=member_id,
        new_member_id="",
        protocol_type="consumer",
        profile=profile(),
        supports_member_id_required=True,
    )


def calls_of_rejoin(size: int) -> int:
    group = rebalancing(size, size // 2)
    command = rejoin(group, f"m{size // 2}")
    return calls_of(lambda: decide(SETTINGS, group, command))


def test_a_member_that_rejoins_costs_the_same_in_a_group_of_any_size() -> None:
    """Otherwise a rebalance of 5,000 members takes seconds."""
    calls_of_rejoin(LAYERED_FROM)
    assert calls_of_rejoin(1_000) == calls_of_rejoin(LAYERED_FROM)


def test_the_join_phase_ends_with_the_last_member_wherever_it_stands() -> None:
    size = 100
    for missing in (0, 15, 16, 50, size - 1):
        group = rebalancing(size, size)
        absent = group.members[f"m{missing}"]
        group = group.with_member(Member(member_id=absent.member_id, profile=absent.profile))
        assert not group.all_members_joined
        after = decide(SETTINGS, group, rejoin(group, absent.member_id)).group
        assert after.state is GroupState.COMPLETING_REBALANCE
