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
    """A bug by its name, with the sentence that describes it and the function that plants it."""

    name: str
    sentence: str
    """What the product does wrong while the bug is planted."""
    plant: Callable[[], BugContext]
    """Returns a context manager: the bug is planted while its `with` block lasts."""


def planted_bug(plant: Callable[[], BugContext]) -> PlantedBug:
    """Decorate a function that plants a bug: its name is the bug's name, its docstring the bug's sentence."""
    return PlantedBug(plant.__name__.replace("_", "-"), " ".join((plant.__doc__ or "").split()), plant)


def patch_attribute(owner: object, name: str, wrong: object) -> BugContext:
    """Replace an attribute of a module or class by `wrong` while the context lasts.

    `owner` is the module or class in which the calling code looks the name up; it may have imported it from elsewhere.
    """
    return patch.object(owner, name, wrong)


def patch_handler(command: type[Command], wrong: Callable[..., Any]) -> BugContext:
    """Replace the coordinator's function that decides commands of this type by `wrong` while the context lasts."""
    return patch.dict(HANDLERS, {command: wrong})


def patch_evolver(event: type[Event], wrong: Callable[..., Any]) -> BugContext:
    """Replace the coordinator's function that applies events of this type to a group by `wrong` while the context
    lasts."""
    return patch.dict(EVOLVERS, {event: wrong})


@contextmanager
def combine(*contexts: BugContext) -> Iterator[None]:
    """One context manager for several patches that together make one bug."""
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
