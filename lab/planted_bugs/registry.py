"""All planted bugs, by name."""

from difflib import get_close_matches
from types import ModuleType
from typing import Final

from regroup.lab.planted_bugs import (
    durability,
    folding,
    joining,
    members,
    old_generations,
    phases,
    responses,
    sessions,
    staying,
    syncing,
    transactions,
)
from regroup.lab.planted_bugs.bug import PlantedBug
from regroup.lab.planted_bugs.consumer import groups, mixed_groups, offsets, timeouts


class UnknownBug(ValueError):
    """Raised for a name that no planted bug has; the message names the bug with the most similar name."""


def bugs_in(*modules: ModuleType) -> dict[str, PlantedBug]:
    """The bugs of these modules by name, in the order in which they are written."""
    return {each.name: each for module in modules for each in vars(module).values() if isinstance(each, PlantedBug)}


CONSUMER_PROTOCOL_BUGS: Final = bugs_in(groups, offsets, timeouts, mixed_groups)
"""The bugs of groups and members of the consumer protocol (KIP-848)."""

TRANSACTION_BUGS: Final = bugs_in(transactions)
"""The bugs of transactions, which members need that write records in them."""

BUGS: Final = (
    bugs_in(*(joining, phases, syncing, staying, sessions, old_generations, responses, durability, folding, members))
    | TRANSACTION_BUGS
    | CONSUMER_PROTOCOL_BUGS
)


def bug_named(name: str) -> PlantedBug:
    """The planted bug of this name. Raises UnknownBug if there is none."""
    if name in BUGS:
        return BUGS[name]
    nearest = get_close_matches(name, BUGS, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "`regroup chaos list` lists them"
    raise UnknownBug(f"unknown bug: {name!r}; {hint}")
