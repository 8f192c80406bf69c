"""What can be expected of a run: each a value that reads as a sentence.

One with `within_ms` waits until it holds, at most so long; one without is looked at in its moment. If one does not
hold, the run fails with its sentence and with what was found instead.
"""

from regroup.lab.plan.sentences import Sentence


class GroupIsStable(Sentence, frozen=True):
    """The group is Stable with exactly these members, and each of them knows it. Without members: with whomever."""

    says = (
        "the group is stable with {members}",
        "within {within_ms} the group is stable with {members}",
        "group {group} is stable with {members}",
        "within {within_ms} group {group} is stable with {members}",
        "the group is stable",
        "within {within_ms} the group is stable",
        "group {group} is stable",
        "within {within_ms} group {group} is stable",
    )
    members: tuple[str, ...] = ()
    within_ms: int = 0
    group: str = "lab"


class GroupIsEmpty(Sentence, frozen=True):
    """The group has no members (or was never there)."""

    says = (
        "the group is empty",
        "within {within_ms} the group is empty",
        "group {group} is empty",
        "within {within_ms} group {group} is empty",
    )
    within_ms: int = 0
    group: str = "lab"


class Leads(Sentence, frozen=True):
    """It is the leader of the group's generation."""

    says = ("{member} leads",)
    member: str


class WasExpelled(Sentence, frozen=True):
    """The coordinator has put it out at least once: it was silent, did not rejoin or sync in time, or was fenced."""

    says = ("{member} was expelled",)
    member: str


class WasNotExpelled(Sentence, frozen=True):
    """The coordinator has never put it out."""

    says = ("{member} was not expelled",)
    member: str


class NobodyWasExpelled(Sentence, frozen=True):
    """The coordinator has never put anybody out."""

    says = ("nobody was expelled",)


class AtMostRebalances(Sentence, frozen=True):
    """So many generations with members have begun, at the most."""

    says = ("there have been at most {count} rebalance(s)", "there has been at most {count} rebalance(s)")
    count: int


class AtLeastRebalances(Sentence, frozen=True):
    """So many generations with members have begun, at the least."""

    says = ("there have been at least {count} rebalance(s)", "there has been at least {count} rebalance(s)")
    count: int


class Generation(Sentence, frozen=True):
    """The group's generation has this number."""

    says = ("the group is in generation {number}",)
    number: int


class SawError(Sentence, frozen=True):
    """One of its requests has been answered with this error."""

    says = ("{member} has seen {code}",)
    member: str
    code: str


class ProcessedTwiceAtMost(Sentence, frozen=True):
    """So many records were processed again after their first time, at the most."""

    says = ("at most {count} record(s) were processed twice", "at most {count} record(s) was processed twice")
    count: int


class KeepsItsPartitions(Sentence, frozen=True):
    """It owns what it was given first, and never gave any of it up or lost it; a restart in between is no matter."""

    says = ("{member} keeps its partitions", "{member} keeps her partitions", "{member} keeps his partitions")
    member: str


class UnownedAtMost(Sentence, frozen=True):
    """Summed over all partitions since the first assignment: the seconds in which nobody owned it."""

    says = ("there were at most {partition_seconds} partition-seconds without an owner",)
    partition_seconds: float


Expectation = (
    GroupIsStable
    | GroupIsEmpty
    | Leads
    | WasExpelled
    | WasNotExpelled
    | NobodyWasExpelled
    | AtMostRebalances
    | AtLeastRebalances
    | Generation
    | SawError
    | ProcessedTwiceAtMost
    | KeepsItsPartitions
    | UnownedAtMost
)
