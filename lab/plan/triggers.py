"""The points of a run that a happening may wait for, and how its moment reads.

    parse_when("at 20s")                                  When(delay_ms=20000)
    parse_when("5s after ben is assigned partitions")     When(after="ben is assigned partitions", delay_ms=5000)
    str(When("the group is stable"))                      "after the group is stable"

A point is a plain sentence that the world says in the moment in which it becomes true. A happening waits for the first
time only.
"""

import re
from typing import Final

from regroup.lab.plan.plan import When
from regroup.lab.plan.sentences import NAME, WORDS, Template, nearest
from regroup.members.faults import parse_duration_ms

POINTS: Final = tuple(
    Template(text)
    for text in (
        "{member} has joined",  # its JoinGroup was answered
        "{member} is elected leader",  # the same, and its SyncGroup is not sent yet
        "{member} is assigned partitions",
        "{member} gives up partitions",
        "{member} loses partitions",
        "{member} sends {api}",
        "{member} is answered {api}",
        "{member} is expelled",
        "{member} is gone",  # it crashed or left
        "the group is preparing",
        "the group is completing",
        "the group is stable",
        "the group is empty",
        "group {group} is preparing",
        "group {group} is completing",
        "group {group} is stable",
        "group {group} is empty",
        "generation {number} begins",
        "faults are over",
    )
)
_MOMENT: Final = re.compile(r"at (?P<at>\S+)|(?:(?P<delay>\S+) )?after (?P<after>.+)")


def check_point(text: str) -> str:
    """The point as the world says it. ValueError names one like it that there is."""
    point = " ".join(text.split())
    if any(template.read(point) is not None for template in POINTS):
        return point
    raise ValueError(f"there is no such point as {text!r}; did you mean for example {nearest(point, POINTS)!r}?")


def members_in(point: str) -> tuple[str, ...]:
    """The members that a point speaks of."""
    values = next((values for template in POINTS if (values := template.read(point)) is not None), {})
    return tuple(value for gap, value in values.items() if WORDS[gap] is NAME)


def parse_when(text: str) -> When:
    """`at 20s`, `after anna has joined`, `5s after anna has joined`. ValueError says what is wrong."""
    match = _MOMENT.fullmatch(" ".join(text.split()))
    if match is None:
        raise ValueError(f"{text!r} is no moment; write for example 'at 20s' or '5s after the group is stable'")
    if match["at"]:
        return When(delay_ms=parse_duration_ms(match["at"]))
    return When(check_point(match["after"]), parse_duration_ms(match["delay"]) if match["delay"] else 0)
