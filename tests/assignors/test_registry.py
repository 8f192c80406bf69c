"""Assignors by name, and one that a user wrote and that may do anything."""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from regroup.assignors import registry
from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorError,
    Cluster,
    Member,
    RebalanceProtocol,
    leader_order,
)
from regroup.assignors.registry import BUILT_IN, assign_checked, assignor_named
from regroup.protocol.consumer.subscription import Assignment, TopicPartition

CLUSTER = Cluster({"orders": 2, "payments": 1})
MEMBERS = {"anna": Member(("orders",)), "ben": Member(("orders", "payments"))}


class Dealing(Assignor):
    """Deals out what it is told."""

    name = "dealing"

    def __init__(self, outcome: Callable[[], Assignments] = dict) -> None:
        self.outcome = outcome

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        return self.outcome()


class NoAssignor:
    """Something else altogether."""


def offering(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    points = EntryPoints([EntryPoint(name, value, "regroup.assignors")])
    monkeypatch.setattr(registry, "entry_points", lambda group: points.select(group=group))


@pytest.mark.parametrize("name", BUILT_IN)
def test_kafkas_own_are_there(name: str) -> None:
    assert assignor_named(name).name == ("sticky" if name == "sticky-before-2.6" else name)


def test_only_cooperative_sticky_is_cooperative_and_it_prefers_that() -> None:
    eager = (RebalanceProtocol.EAGER,)
    protocols = {name: assignor_named(name).supported_protocols for name in BUILT_IN}
    assert protocols.pop("cooperative-sticky") == (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    assert set(protocols.values()) == {eager}


def test_a_package_can_offer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, "mine", "regroup.assignors.range_assignor:RangeAssignor")
    assert assignor_named("mine").assign(CLUSTER, {"anna": Member(("payments",))}) == {
        "anna": [TopicPartition("payments", 0)]
    }


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("no.such.module:Thing", "cannot be loaded from no.such.module:Thing: ModuleNotFoundError"),
        ("regroup.assignors.interface:Nothing", "AttributeError"),
        ("regroup.assignors.interface:Assignor", "TypeError"),
        ("collections:OrderedDict", "is no assignor: it must inherit from Assignor"),
    ],
)
def test_one_that_cannot_be_used_says_why(monkeypatch: pytest.MonkeyPatch, value: str, complaint: str) -> None:
    offering(monkeypatch, "mine", value)
    with pytest.raises(AssignorError, match=complaint):
        assignor_named("mine")


def test_an_unknown_name_lists_those_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, "mine", "collections:OrderedDict")
    with pytest.raises(AssignorError, match="no assignor stickky; known are cooperative-sticky, mine, range"):
        assignor_named("stickky")


ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.mark.parametrize(
    ("outcome", "complaint", "member", "topic"),
    [
        (lambda: 1 / 0, "assignor dealing raised ZeroDivisionError", None, None),
        (lambda: {"anna": []}, "left out member ben", "ben", None),
        (lambda: {"anna": [], "ben": [], "eve": []}, "eve, who is no member", "eve", None),
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
def test_what_no_group_can_use_is_refused_by_name(
    outcome: Callable[[], Assignments], complaint: str, member: str | None, topic: str | None
) -> None:
    with pytest.raises(AssignorError, match=complaint) as raised:
        assign_checked(Dealing(outcome), CLUSTER, MEMBERS)
    assert (raised.value.member, raised.value.topic) == (member, topic)


def test_an_error_of_its_own_is_passed_on() -> None:
    def refuse() -> Assignments:
        raise AssignorError("not today", member="anna")

    with pytest.raises(AssignorError, match=r"^not today$"):
        assign_checked(Dealing(refuse), CLUSTER, MEMBERS)


def test_a_simple_assignor_needs_nothing_but_a_name_and_assign() -> None:
    assignor = Dealing(lambda: {"anna": ORDERS, "ben": []})
    assert assign_checked(assignor, CLUSTER, MEMBERS) == {"anna": ORDERS, "ben": []}
    last = assignor.on_assignment(Assignment(3, tuple(ORDERS)), 3)
    assert assignor.subscription_user_data(("orders",), last) is None


def test_a_java_leader_walks_its_members_by_hash() -> None:
    assert leader_order(["t08", "t10", "t18"]) == ["t10", "t18", "t08"]
