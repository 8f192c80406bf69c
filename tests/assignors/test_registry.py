"""Assignors by name, and checks of assignors of other packages."""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from regroup.assignors import registry
from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorError,
    AssignorMember,
    ClusterMetadata,
    RebalanceProtocol,
    leader_order,
)
from regroup.assignors.registry import BUILT_IN, assign_checked, assignor_named, offering
from regroup.protocol.consumer.subscription import Assignment, TopicPartition

CLUSTER = ClusterMetadata({"orders": 2, "payments": 1})
MEMBERS = {"anna": AssignorMember(("orders",)), "ben": AssignorMember(("orders", "payments"))}


class FixedAssignor(Assignor):
    """Returns a fixed result."""

    name = "fixed"

    def __init__(self, result: Callable[[], Assignments] = dict) -> None:
        self.result = result

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        return self.result()


def offer(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    points = EntryPoints([EntryPoint(name, value, "regroup.assignors")])
    monkeypatch.setattr(registry, "entry_points", lambda group: points.select(group=group))


@pytest.mark.parametrize("name", BUILT_IN)
def test_kafkas_own_assignors_have_their_names(name: str) -> None:
    assert assignor_named(name).name == ("sticky" if name == "sticky-before-2.6" else name)


def test_only_cooperative_sticky_is_cooperative_and_it_prefers_that() -> None:
    eager = (RebalanceProtocol.EAGER,)
    protocols = {name: assignor_named(name).supported_protocols for name in BUILT_IN}
    assert protocols.pop("cooperative-sticky") == (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    assert set(protocols.values()) == {eager}


def test_an_assignor_is_offered_by_its_name_inside_a_block_only() -> None:
    own = FixedAssignor()
    with offering(own):
        assert assignor_named("fixed") is own
        assert assignor_named("range").name == "range"
        with offering(None), pytest.raises(AssignorError, match="unknown assignor 'fixed'"):
            assignor_named("fixed")
    with pytest.raises(AssignorError, match="unknown assignor 'fixed'"):
        assignor_named("fixed")


def test_a_package_can_offer_an_assignor(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "mine", "regroup.assignors.range_assignor:RangeAssignor")
    assert assignor_named("mine").assign(CLUSTER, {"anna": AssignorMember(("payments",))}) == {
        "anna": [TopicPartition("payments", 0)]
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no.such.module:Thing", "cannot be loaded from no.such.module:Thing: ModuleNotFoundError"),
        ("regroup.assignors.interface:Nothing", "AttributeError"),
        ("regroup.assignors.interface:Assignor", "TypeError"),
        ("collections:OrderedDict", "is not an assignor: it must inherit from Assignor"),
    ],
)
def test_an_assignor_that_cannot_be_used_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    offer(monkeypatch, "mine", value)
    with pytest.raises(AssignorError, match=message):
        assignor_named("mine")


def test_an_unknown_name_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "mine", "collections:OrderedDict")
    with pytest.raises(AssignorError, match="unknown assignor 'stickky'; assignors: cooperative-sticky, mine, range"):
        assignor_named("stickky")


ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.mark.parametrize(
    ("result", "message", "member", "topic"),
    [
        (lambda: 1 / 0, "assignor fixed raised ZeroDivisionError", None, None),
        (lambda: {"anna": []}, "left out member ben", "ben", None),
        (lambda: {"anna": [], "ben": [], "eve": []}, "eve, which is not a member", "eve", None),
        (lambda: {"anna": [TopicPartition("orders", 2)], "ben": []}, "the topic has 2 partitions", "anna", "orders"),
        (lambda: {"anna": [TopicPartition("ordres", 0)], "ben": []}, "the topic has 0 partitions", "anna", "ordres"),
        (lambda: {"anna": [TopicPartition("payments", 0)], "ben": []}, "not subscribed", "anna", "payments"),
        (
            lambda: {"anna": ORDERS, "ben": ORDERS[1:]},
            "partition 1 of topic orders, which member anna",
            "ben",
            "orders",
        ),
    ],
)
def test_an_invalid_result_is_refused_with_member_and_topic(
    result: Callable[[], Assignments], message: str, member: str | None, topic: str | None
) -> None:
    with pytest.raises(AssignorError, match=message) as raised:
        assign_checked(FixedAssignor(result), CLUSTER, MEMBERS)
    assert (raised.value.member, raised.value.topic) == (member, topic)


def test_an_assignors_own_error_is_raised_unchanged() -> None:
    def refuse() -> Assignments:
        raise AssignorError("not today", member="anna")

    with pytest.raises(AssignorError, match=r"^not today$"):
        assign_checked(FixedAssignor(refuse), CLUSTER, MEMBERS)


def test_an_assignor_needs_only_a_name_and_assign() -> None:
    assignor = FixedAssignor(lambda: {"anna": ORDERS, "ben": []})
    assert assign_checked(assignor, CLUSTER, MEMBERS) == {"anna": ORDERS, "ben": []}
    last = assignor.on_assignment(Assignment(3, tuple(ORDERS)), 3)
    assert assignor.subscription_user_data(("orders",), last) is None


def test_a_java_leader_iterates_its_members_by_hash() -> None:
    assert leader_order(["t08", "t10", "t18"]) == ["t10", "t18", "t08"]
