"""Finds and reads scenario files: those that come with the lab, by their names, and a user's own.

scenario_names()                          ("coordinator-crashes-mid-rebalance", …)
scenario("first-join")                    its SimulationPlan
find_plan("my-scenario.yaml")             the plan in a file, or else of a scenario
"""

from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import yaml

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan
from regroup.notation.yaml_keys import UniqueKeyLoader

__all__ = ["scenario_names", "scenario_text", "scenario_title", "scenario", "find_plan"]

_SUFFIX: Final = ".yaml"


def scenario_names() -> tuple[str, ...]:
    """The names of all scenarios, in alphabetical order."""
    names = [each.name for each in _folder().iterdir() if each.name.endswith(_SUFFIX)]
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names))


def scenario_text(name: str) -> str:
    """The YAML text of a scenario, with the comment that explains it. Raises ValueError for an unknown name."""
    if name not in scenario_names():
        nearest = get_close_matches(name, scenario_names(), n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(scenario_names())}"
        raise ValueError(f"unknown scenario: {name!r}; {hint}")
    return (_folder() / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


def scenario_title(name: str) -> str:
    """The title of a scenario, also of one that cannot be played here, as a pattern needs RE2.

    Raises ValueError for an unknown name.
    """
    title: str = yaml.load(scenario_text(name), UniqueKeyLoader)["scenario"]
    return title


def scenario(name: str) -> SimulationPlan:
    """The plan of a scenario. Raises ValueError for an unknown name."""
    return read_plan(scenario_text(name))


def find_plan(name_or_file: str) -> SimulationPlan:
    """The plan in the file of this name or, if there is no such file, of the scenario of this name.

    Raises ValueError, whose message says what is wrong.
    """
    path = Path(name_or_file)
    if not path.is_file():
        if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
            raise ValueError(f"{name_or_file}: there is no such file, and no scenario of that name")
        return scenario(name_or_file)
    try:
        return read_plan(path.read_text(encoding="utf-8"))
    except InvalidScenario as error:
        raise InvalidScenario(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InvalidScenario(f"{path}: not a UTF-8 text file") from None


def _folder() -> Traversable:
    return files("regroup.lab.plan") / "scenarios"
