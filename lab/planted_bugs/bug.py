"""Planted bugs: each makes one behaviour of the product wrong while a `with` block lasts, by replacing functions.

@planted_bug
def sync_ignores_the_generation() -> BugContext:
    \"\"\"SyncGroup is accepted with any generation id.\"\"\"
    return patch_attribute(sync, "refuse_generation", without_generation_check)

with sync_ignores_the_generation.plant():
    ...
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

from regroup.coordinator.commands import Command
from regroup.coordinator.decide import HANDLERS
from regroup.coordinator.events import Event
from regroup.coordinator.evolve import EVOLVERS

BugContext: TypeAlias = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A bug that can be planted."""

    name: str
    sentence: str
    """The wrong behaviour."""
    plant: Callable[[], BugContext]
    """Plants the bug until the returned context ends."""


def planted_bug(plant: Callable[[], BugContext]) -> PlantedBug:
    """Make a bug of a function: its name is the bug's name, its docstring the sentence."""
    return PlantedBug(plant.__name__.replace("_", "-"), " ".join((plant.__doc__ or "").split()), plant)


def patch_attribute(owner: object, name: str, wrong: object) -> BugContext:
    """Replace an attribute of the module or class that looks it up, which may not be the one that defines it."""
    return patch.object(owner, name, wrong)


def patch_handler(command: type[Command], wrong: Callable[..., Any]) -> BugContext:
    """Replace the function that decides commands of this type."""
    return patch.dict(HANDLERS, {command: wrong})


def patch_evolver(event: type[Event], wrong: Callable[..., Any]) -> BugContext:
    """Replace the function that applies events of this type."""
    return patch.dict(EVOLVERS, {event: wrong})


@contextmanager
def combine(*contexts: BugContext) -> Iterator[None]:
    """Several patches that make one bug."""
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
