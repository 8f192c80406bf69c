"""Triggers of a plan's steps: a time, or a milestone of the run.

    parse_trigger("at 20s")                                  StepTrigger(delay_ms=20000)
    parse_trigger("5s after ben is assigned partitions")     StepTrigger("ben is assigned partitions", 5000)
    str(StepTrigger("the group is Stable"))                  "after the group is Stable"

A milestone is a sentence that the simulation reports in the moment in which it becomes true. A step waits for its first
occurrence only.
"""

import re
from typing import Final

import msgspec

from regroup.lab.plan.sentences import MEMBER_NAME, PLACEHOLDERS, Template, hint_for
from regroup.notation.durations import format_duration, parse_duration_ms


class StepTrigger(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a step happens: `delay_ms` after the start of the run, or after the first occurrence of a milestone."""

    milestone: str = ""
    """The sentence of the milestone; empty if `delay_ms` counts from the start of the run."""
    delay_ms: int = 0

    def __str__(self) -> str:
        delay = format_duration(self.delay_ms, with_fractions=True)
        if not self.milestone:
            return f"at {delay}"
        return f"{delay} after {self.milestone}" if self.delay_ms else f"after {self.milestone}"


_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty")
MILESTONE_MEANINGS: Final = {
    "{member} has joined": "The member has received its JoinGroup response.",
    "{member} is elected leader": "The same, and the member is the leader. It has not sent SyncGroup yet.",
    "{member} is assigned partitions": "A rebalance has brought the member partitions.",
    "{member} revokes partitions": "The member gives up partitions in a rebalance.",
    "{member} loses partitions": "The member learns that it is no member any more, and gives up everything.",
    "{member} sends {api}": "The member's next request of this type leaves.",
    "{member} receives the {api} response": "The response to a request of this type arrives at the member.",
    "{member}'s transaction is prepared": "The outcome of its producer's transaction is stored; no group has ended it.",
    "{member} is removed": "The coordinator removes the member: a timeout expired, or another process replaced it.",
    "{member} has stopped": "The member has crashed or left.",
    **{f"the group is {state}": f"The group `lab` enters the state {state}." for state in _STATES},
    **{f"group {{group}} is {state}": f"Another group enters the state {state}." for state in _STATES},
    "generation {number} begins": "A join phase ends with this generation id, in any group.",
    "faults are over": "Network, disk and brokers work again; later only expectations count.",
}
"""Every milestone, as a template, and when it is reached."""
MILESTONES: Final = tuple(map(Template, MILESTONE_MEANINGS))
_TRIGGER: Final = re.compile(r"at (?P<at>\S+)|(?:(?P<delay>\S+) )?after (?P<milestone>.+)")


def check_milestone(text: str) -> str:
    """Return the milestone with single blanks between its words.

    Raises ValueError if there is no such milestone; the message says what to write.
    """
    milestone = " ".join(text.split())
    if any(template.parse(milestone) is not None for template in MILESTONES):
        return milestone
    raise ValueError(f"unknown milestone: {text!r}; {hint_for(milestone, MILESTONES)}")


def milestone_members(milestone: str) -> tuple[str, ...]:
    """The names of the members in the sentence of a milestone, in the order of the sentence."""
    values = next((values for template in MILESTONES if (values := template.parse(milestone)) is not None), {})
    return tuple(value for name, value in values.items() if PLACEHOLDERS[name] is MEMBER_NAME)


def parse_trigger(text: str) -> StepTrigger:
    """Parse a trigger: `at 20s`, `after anna has joined` or `5s after anna has joined`.

    Raises ValueError, whose message says what is wrong.
    """
    match = _TRIGGER.fullmatch(" ".join(text.split()))
    if match is None:
        raise ValueError(f"invalid trigger: {text!r}; write for example 'at 20s' or '5s after the group is Stable'")
    if match["at"]:
        return StepTrigger(delay_ms=parse_duration_ms(match["at"]))
    delay_ms = parse_duration_ms(match["delay"]) if match["delay"] else 0
    return StepTrigger(check_milestone(match["milestone"]), delay_ms)
