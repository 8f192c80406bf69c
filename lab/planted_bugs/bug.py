"""A bug that somebody planted: one behaviour, switched while a `with` block lasts. Shipped code knows nothing of it.

@bug
def sync_ignores_the_generation() -> Planted:
    \"\"\"SyncGroup is served whatever generation it names.\"\"\"
    return instead_of(syncing, "refuse_generation", without_the_generation)

with sync_ignores_the_generation.plant():
    ...
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

from regroup.coordinator.commands import Command
from regroup.coordinator.decide import DECIDE
from regroup.coordinator.events import Event
from regroup.coordinator.evolve import EVOLVE

Planted: TypeAlias = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class Bug:
    """`sentence` says what goes wrong, in the place of what is right. `plant()` holds until it is left."""

    name: str
    sentence: str
    plant: Callable[[], Planted]


def bug(plant: Callable[[], Planted]) -> Bug:
    """A bug is a function: its name is the bug's name, its docstring the sentence."""
    return Bug(plant.__name__.replace("_", "-"), " ".join((plant.__doc__ or "").split()), plant)


def instead_of(owner: object, name: str, wrong: object) -> Planted:
    """What `owner` calls `name` is this. To be swapped where it is looked up, not where it was made."""
    return patch.object(owner, name, wrong)


def decides(command: type[Command], wrong: Callable[..., Any]) -> Planted:
    """Commands of this type are decided upon by this."""
    return _in_table(DECIDE, {command: wrong})


def evolves(event: type[Event], wrong: Callable[..., Any]) -> Planted:
    """Events of this type are folded by this."""
    return _in_table(EVOLVE, {event: wrong})


def _in_table(table: dict[Any, Any], wrong: Mapping[Any, Any]) -> Planted:
    return patch.dict(table, wrong)


@contextmanager
def together(*parts: Planted) -> Iterator[None]:
    """One behaviour that stands in several places."""
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(part)
        yield
