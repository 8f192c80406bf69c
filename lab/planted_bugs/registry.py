"""Every bug there is, by name."""

from difflib import get_close_matches
from types import ModuleType
from typing import Final

from regroup.lab.planted_bugs import durability, joining, members, offsets, static_members, staying, syncing
from regroup.lab.planted_bugs.bug import Bug


class UnknownBug(ValueError):
    """Nobody has planted a bug of this name; the message names the nearest one."""


def bugs_in(*modules: ModuleType) -> dict[str, Bug]:
    """In the order in which they are written."""
    return {each.name: each for module in modules for each in vars(module).values() if isinstance(each, Bug)}


BUGS: Final[dict[str, Bug]] = bugs_in(joining, syncing, staying, static_members, offsets, durability, members)


def bug_named(name: str) -> Bug:
    """UnknownBug if there is none."""
    if name in BUGS:
        return BUGS[name]
    nearest = get_close_matches(name, BUGS, n=1)
    hint = f"Did you mean {nearest[0]}?" if nearest else "`regroup chaos list` shows them all."
    raise UnknownBug(f"There is no bug {name!r}. {hint}")
