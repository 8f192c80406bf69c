"""Expectations of a plan about its run: each is a value that prints and parses as a sentence.

One with `within_ms` waits until it holds, at most that long; one without is checked at once. An expectation that does
not hold fails the run, with its sentence and what was found instead.
"""

from regroup.lab.plan.sentences import Sentence


class GroupIsStable(Sentence, frozen=True):
    """The group is Stable with exactly these members, and so is each of them; without `members`, with any members."""

    templates = (
        "the group is Stable with {members}",
        "within {within_ms} the group is Stable with {members}",
        "group {group} is Stable with {members}",
        "within {within_ms} group {group} is Stable with {members}",
        "the group is Stable",
        "within {within_ms} the group is Stable",
        "group {group} is Stable",
        "within {within_ms} group {group} is Stable",
    )
    members: tuple[str, ...] = ()
    within_ms: int = 0
    group: str = "lab"


class GroupIsEmpty(Sentence, frozen=True):
    """The group has no members, or does not exist."""

    templates = (
        "the group is Empty",
        "within {within_ms} the group is Empty",
        "group {group} is Empty",
        "within {within_ms} group {group} is Empty",
    )
    within_ms: int = 0
    group: str = "lab"


class GroupIsInGeneration(Sentence, frozen=True):
    """The group `lab` has this generation id."""

    templates = ("the group is in generation {number}",)
    number: int


class Leads(Sentence, frozen=True):
    """The member is the leader of its group."""

    templates = ("{member} leads",)
    member: str


class KeepsPartitions(Sentence, frozen=True):
    """The member owns the partitions of its first assignment and has not revoked or lost any; it may have restarted."""

    templates = ("{member} keeps its partitions",)
    member: str


class ReceivedError(Sentence, frozen=True):
    """A response to the member had this error."""

    templates = ("{member} has seen {code}",)
    member: str
    code: str


class WasRemoved(Sentence, frozen=True):
    """The coordinator has removed the member at least once: a timeout expired, or another process replaced it."""

    templates = ("{member} was removed",)
    member: str


class WasNotRemoved(Sentence, frozen=True):
    """The coordinator has never removed the member."""

    templates = ("{member} was not removed",)
    member: str


class NoMemberWasRemoved(Sentence, frozen=True):
    """The coordinator has never removed a member."""

    templates = ("no member was removed",)


class AtMostRebalances(Sentence, frozen=True):
    """At most `count` generations with members have begun."""

    templates = ("there have been at most {count} rebalance(s)", "there has been at most {count} rebalance(s)")
    count: int


class AtLeastRebalances(Sentence, frozen=True):
    """At least `count` generations with members have begun."""

    templates = ("there have been at least {count} rebalance(s)", "there has been at least {count} rebalance(s)")
    count: int


class ProcessedTwiceAtMost(Sentence, frozen=True):
    """At most `count` records were processed again after their first time."""

    templates = ("at most {count} record(s) were processed twice", "at most {count} record(s) was processed twice")
    count: int


class UnownedAtMost(Sentence, frozen=True):
    """Partitions had no owner for at most this many seconds, summed over all partitions since their first owner."""

    templates = ("there were at most {partition_seconds} partition-seconds without an owner",)
    partition_seconds: float


Expectation = (
    GroupIsStable
    | GroupIsEmpty
    | GroupIsInGeneration
    | Leads
    | KeepsPartitions
    | ReceivedError
    | WasRemoved
    | WasNotRemoved
    | NoMemberWasRemoved
    | AtMostRebalances
    | AtLeastRebalances
    | ProcessedTwiceAtMost
    | UnownedAtMost
)
