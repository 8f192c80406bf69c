"""Small scenes, each played with a bug and without it."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from regroup.lab.planted_bugs.bug import Bug
from regroup.lab.simulation.virtual_clock import VirtualLoop


class Scene(NamedTuple):
    """What comes out of it rightly, and what while the bug is planted."""

    bug: Bug
    play: Callable[[], Any]
    right: Any
    wrong: Any


SCENES: list[Scene] = []


def scene(bug: Bug, *, right: Any, wrong: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a function that plays a scene and gives back what is to be looked at."""

    def enter(play: Callable[[], Any]) -> Callable[[], Any]:
        SCENES.append(Scene(bug, play, right, wrong))
        return play

    return enter


def virtually(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What a coroutine returns whose time takes no time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()
