"""A learner's function as an assignor of a member in a live group.

The learner's file has one function:

    def assign(partitions, members):
        return {"anna": [("orders", 0)], "ben": [("orders", 1)]}

`partitions` is the number of partitions of each topic, `members` has for each member its `topics`, and the `owned`
partitions of its last assignment. Running the file is left to `ComputeCases`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorError,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
)
from regroup.assignors.range_assignor import RangeAssignor
from regroup.assignors.registry import assign_checked
from regroup.classroom.lessons.assignor.cases import MadeUpCase
from regroup.classroom.lessons.assignor.failures import AssignorFailure
from regroup.protocol.consumer.subscription import TopicPartition

OWN_ASSIGNOR: Final = "mine"
"""The name of the learner's assignor in the scenario of a task."""
ComputeCases: TypeAlias = Callable[[Sequence[MadeUpCase]], list[Any]]
"""Runs the learner's function for each case and returns what it returned, as JSON has it. Raises AssignorFailure."""


class OwnAssignor(Assignor):
    """The learner's function as an assignor of a member. The last assignment travels as user data.

    After its first failure the function is not called again, and range takes its place: a leader whose assignor fails
    would try again until the end of the run, with a new process each time.
    """

    name = OWN_ASSIGNOR

    def __init__(self, compute: ComputeCases) -> None:
        self._compute = compute
        self.failure: AssignorFailure | None = None
        """The failure in a live group, if there was one."""

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        return json.dumps([list(each) for each in last.partitions] if last else []).encode()

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        if self.failure is None:
            try:
                return self._computed(cluster, members)
            except AssignorFailure as failure:
                self.failure = failure
        return RangeAssignor().assign(cluster, members)

    def _computed(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        described = {
            name: {"topics": list(member.topics), "owned": json.loads(member.user_data or b"[]")}
            for name, member in members.items()
        }
        (returned,) = self._compute([MadeUpCase(dict(cluster.partitions_per_topic), described)])
        try:
            return assign_checked(ReturnedAssignments(as_assignments(returned)), cluster, members)
        except AssignorError as error:
            raise AssignorFailure("impossible", str(error)) from None


def as_assignments(returned: Any) -> Assignments:
    """What a learner's function returned, as an assignment. Raises AssignorFailure if it is none."""
    if not isinstance(returned, dict):
        raise AssignorFailure("nonsense", _short(returned))
    found: Assignments = {}
    for name, partitions in returned.items():
        if not isinstance(partitions, list):
            raise AssignorFailure("nonsense", f"{_short(partitions)} for {name}")
        for each in partitions:
            if not (isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and type(each[1]) is int):
                raise AssignorFailure("nonsense", f"{_short(each)} as a partition of {name}")
        found[str(name)] = [TopicPartition(*each) for each in partitions]
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


class ReturnedAssignments(Assignor):
    """An assignor that returns a result computed before, so that `assign_checked` can check this result."""

    name = OWN_ASSIGNOR

    def __init__(self, result: Assignments) -> None:
        self._result = result

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        return self._result
