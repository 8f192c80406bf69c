"""What a JoinGroup response says of its generation, and who may lead without assigning."""

from typing import Any

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    GroupState,
    LogRecordKind,
    Member,
    MemberProfile,
    PendingAppend,
)
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.lab.checker.classic.join_responses import (
    a_join_response_describes_its_generation,
    a_refused_join_names_no_generation,
    a_restarted_leader_does_not_assign,
    restarts_in_stable,
)
from regroup.lab.checker.coordinator_invariants import response_invariants
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse, JoinGroupResponseMember
from tests.lab.checker.made_exchanges import checker_state, made_exchange

STATE = checker_state()


def profile(name: str, instance_id: str | None = None) -> MemberProfile:
    protocols = tuple(SupportedProtocol(each, f"{name} {each}".encode()) for each in ("range", "sticky"))
    return MemberProfile(
        session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=protocols, instance_id=instance_id
    )


def member(name: str, instance_id: str | None = None) -> Member:
    return Member(member_id=name, profile=profile(name, instance_id))


GENERATION = Group(
    group_id="lab",
    state=GroupState.COMPLETING_REBALANCE,
    generation_id=3,
    protocol_type="consumer",
    protocol_name="range",
    leader_id="anna",
    members={"anna": member("anna"), "ben": member("ben")},
)
ROWS = [JoinGroupResponseMember(member_id=each, metadata=f"{each} range".encode()) for each in ("anna", "ben")]


def response(**fields: Any) -> JoinGroupResponse:
    """The response to anna, who leads, of a generation with anna and ben."""
    due = {"generation_id": 3, "protocol_type": "consumer", "protocol_name": "range", "leader": "anna"}
    return JoinGroupResponse(**{**due, "member_id": "anna", "members": ROWS, **fields})


def join(member_id: str = "", *, instance_id: str | None = None, skips: bool = True) -> c.JoinGroup:
    return c.JoinGroup(
        group_id="lab",
        at_ms=0,
        member_id=member_id,
        new_member_id="new",
        protocol_type="consumer",
        profile=profile("anna", instance_id),
        supports_skip_assignment=skips,
    )


def described(answer: JoinGroupResponse, group: Group = GENERATION) -> str | None:
    exchange = made_exchange(join("anna"), group, response=answer)
    return a_join_response_describes_its_generation(STATE, exchange)


# -- the generation


def test_a_response_to_the_leader_and_one_to_a_follower_are_in_order() -> None:
    assert described(response()) is None
    assert described(response(member_id="ben", members=[])) is None


def test_another_protocol_or_leader_is_found() -> None:
    assert described(response(protocol_name="sticky")) == "it has sticky, the group has range"
    assert described(response(protocol_type="connect"))
    assert described(response(leader="ben", member_id="carla", members=[])) == (
        "it names ben as the leader, and anna leads"
    )


def test_a_follower_that_gets_members_and_a_leader_that_misses_some_are_found() -> None:
    assert described(response(member_id="ben")) == "it has the members anna, ben; due were none"
    assert described(response(members=ROWS[:1])) == "it has the members anna; due were anna, ben"
    assert described(response(members=[])) == "it has the members none; due were anna, ben"


def test_members_with_the_subscription_of_another_protocol_or_instance_id_are_found() -> None:
    other = JoinGroupResponseMember(member_id="ben", metadata=b"ben sticky")
    assert described(response(members=[ROWS[0], other]))
    static = JoinGroupResponseMember(member_id="ben", group_instance_id="ben-1", metadata=b"ben range")
    assert described(response(members=[ROWS[0], static]))


def test_a_refused_join_and_one_that_waits_for_the_log_are_not_checked() -> None:
    assert described(response(error_code=25, leader="", members=[])) is None
    append = PendingAppend(kind=LogRecordKind.STATIC_MEMBER_REPLACEMENT, deadline_ms=0)
    assert described(response(leader="ben"), replace(GENERATION, pending_appends={2: append})) is None


# -- a leader that restarts

STABLE = replace(
    GENERATION,
    state=GroupState.STABLE,
    members={"anna": member("anna", "anna-1"), "ben": member("ben", "ben-1")},
    static_members={"anna-1": "anna", "ben-1": "ben"},
)


def restarted(command: c.JoinGroup, **fields: Any) -> ObservedExchange:
    due = {"member_id": "new", "leader": "new", "members": [], "skip_assignment": True}
    return made_exchange(command, STABLE, response=response(**{**due, **fields}))


def found(command: c.JoinGroup, **fields: Any) -> str | None:
    return a_restarted_leader_does_not_assign(STATE, restarted(command, **fields))


ANNA_AGAIN = join(instance_id="anna-1")
OLD_ANNA_AGAIN = join(instance_id="anna-1", skips=False)
BEN_AGAIN = join(instance_id="ben-1")


def test_a_leader_that_restarts_leads_without_assigning() -> None:
    assert found(ANNA_AGAIN) is None
    assert found(ANNA_AGAIN, skip_assignment=False) == ("skip_assignment is False for new, anna before, which led")
    assert found(ANNA_AGAIN, leader="anna") == ("anna is named as the leader, due was new; anna before, which led")


def test_an_old_client_is_named_its_former_id_as_the_leader() -> None:
    assert found(OLD_ANNA_AGAIN, leader="anna", skip_assignment=False) is None
    assert found(OLD_ANNA_AGAIN, leader="new", skip_assignment=False)
    assert found(OLD_ANNA_AGAIN, leader="anna", skip_assignment=True)


def test_a_follower_that_restarts_does_not_lead() -> None:
    assert found(BEN_AGAIN, leader="anna", skip_assignment=False) is None
    assert found(BEN_AGAIN, leader="new", skip_assignment=False)
    assert found(BEN_AGAIN, leader="anna", skip_assignment=True)


def test_skip_assignment_for_a_member_that_has_not_restarted_is_found() -> None:
    assert found(join("anna"), leader="anna", skip_assignment=True) == (
        "skip_assignment is True for new, which is no static member that has restarted"
    )
    assert found(join("anna"), leader="anna", skip_assignment=False) is None


def test_a_refused_join_of_a_leader_is_not_checked() -> None:
    assert found(ANNA_AGAIN, error_code=25, skip_assignment=False) is None


def test_only_a_join_without_a_member_id_that_stays_in_a_stable_generation_is_a_restart() -> None:
    assert restarts_in_stable(restarted(ANNA_AGAIN)) == "anna"
    assert restarts_in_stable(restarted(join("anna", instance_id="anna-1"))) is None
    assert restarts_in_stable(restarted(join(instance_id="carla-1"))) is None
    assert restarts_in_stable(restarted(join())) is None
    assert restarts_in_stable(restarted(ANNA_AGAIN, generation_id=4)) is None
    held = restarted(ANNA_AGAIN)
    held.held_under = (AwaitedResponse.JOIN, "new")
    assert restarts_in_stable(held) is None
    syncing = made_exchange(ANNA_AGAIN, replace(STABLE, state=GroupState.COMPLETING_REBALANCE), response=response())
    assert restarts_in_stable(syncing) is None


# -- a refusal


def refused(
    command: c.JoinGroup, code: ErrorCode, after: Group = STABLE, decided: Group | None = None, **fields: Any
) -> str | None:
    """What is found in an error: the group was so after the command, and so when the response was decided."""
    exchange = made_exchange(command, STABLE, after, JoinGroupResponse(error_code=code, **fields))
    exchange.decided_group = after if decided is None else decided
    return a_refused_join_names_no_generation(STATE, exchange)


def test_a_refused_join_names_its_own_member_or_none() -> None:
    for member_id in ("", "anna"):
        assert refused(join("anna"), ErrorCode.FENCED_INSTANCE_ID, member_id=member_id) is None
    assert refused(join("anna"), ErrorCode.FENCED_INSTANCE_ID, member_id="ben")
    assert refused(join(), ErrorCode.MEMBER_ID_REQUIRED, member_id="new") is None
    assert refused(join(), ErrorCode.MEMBER_ID_REQUIRED, member_id="")


def test_a_refused_join_that_names_a_generation_a_leader_or_members_is_found() -> None:
    for fields in ({"generation_id": 3}, {"leader": "anna"}, {"members": ROWS}):
        assert refused(join("anna"), ErrorCode.UNKNOWN_MEMBER_ID, member_id="anna", **fields)


def test_a_refused_join_to_a_group_of_the_consumer_protocol_is_judged_too() -> None:
    anna = ConsumerMember(member_id="anna", profile=ConsumerProfile())
    mixed = Group(group_id="lab", consumer=ConsumerGroup(members={"anna": anna}))

    def violations(code: ErrorCode, **fields: Any) -> list[str]:
        command = replace(join(), new_short_member_id="short")
        exchange = made_exchange(command, mixed, mixed, JoinGroupResponse(error_code=code, **fields))
        invariants = response_invariants(STATE, exchange)
        assert a_refused_join_names_no_generation in invariants
        return [detail for detail in [a_refused_join_names_no_generation(STATE, exchange)] if detail]

    assert violations(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id="") == []
    assert violations(ErrorCode.MEMBER_ID_REQUIRED, member_id="short") == []
    assert violations(ErrorCode.MEMBER_ID_REQUIRED, member_id="new")
    assert violations(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id="", generation_id=0)


def test_a_static_return_that_the_log_refuses_names_the_generation_and_the_leader_before() -> None:
    append = PendingAppend(kind=LogRecordKind.STATIC_MEMBER_REPLACEMENT, deadline_ms=0, member_id="new")
    after = replace(STABLE, leader_id="new", pending_appends={2: append})
    code, decided = ErrorCode.COORDINATOR_NOT_AVAILABLE, STABLE
    assert refused(ANNA_AGAIN, code, after, decided, generation_id=3, leader="anna", member_id="") is None
    assert refused(ANNA_AGAIN, code, after, decided, generation_id=3, leader="new", member_id="")
    assert refused(ANNA_AGAIN, code, after, decided, generation_id=-1, leader="", member_id="")


def test_a_static_return_for_which_the_log_was_too_slow_names_nothing() -> None:
    append = PendingAppend(kind=LogRecordKind.STATIC_MEMBER_REPLACEMENT, deadline_ms=0, member_id="new")
    waiting = replace(STABLE, leader_id="new", pending_appends={2: append})
    too_late = replace(waiting, pending_appends={2: replace(append, has_timed_out=True)})
    for has_named, answer in (
        (False, JoinGroupResponse(error_code=15, member_id="")),
        (True, response(error_code=15, member_id="", members=[])),
    ):
        exchange = made_exchange(ANNA_AGAIN, STABLE, waiting, answer)
        exchange.after_log = too_late, 7
        assert bool(a_refused_join_names_no_generation(STATE, exchange)) is has_named


def test_a_join_that_is_accepted_is_no_refusal() -> None:
    assert refused(join("anna"), ErrorCode.NONE, generation_id=3, leader="anna", member_id="ben") is None
