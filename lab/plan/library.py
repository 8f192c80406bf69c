"""The scenarios that come with the lab: files that read like stories, by their names.

scenario_names()                          ("coordinator-crashes-mid-rebalance", …)
scenario("first-join")                    its Plan
find_plan("my-story.yaml")                a Plan of your own, or a scenario by its name
"""

from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from regroup.lab.plan.plan import Plan
from regroup.lab.plan.yaml_format import UnreadableStory, read_plan

SUFFIX: Final = ".yaml"


def scenario_names() -> tuple[str, ...]:
    """All of them, in alphabetical order."""
    return tuple(sorted(each.name.removesuffix(SUFFIX) for each in _folder().iterdir() if each.name.endswith(SUFFIX)))


def scenario_text(name: str) -> str:
    """A scenario as it was written, with the comment that explains it. ValueError names one like it that there is."""
    if name not in scenario_names():
        nearest = get_close_matches(name, scenario_names(), n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(scenario_names())}"
        raise ValueError(f"there is no scenario {name!r}; {hint}")
    return (_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def scenario(name: str) -> Plan:
    """The plan of a scenario. ValueError as above."""
    return read_plan(scenario_text(name))


def find_plan(name_or_file: str) -> Plan:
    """The plan of a file if there is one of this name, else of a scenario. ValueError says what is wrong, and where."""
    path = Path(name_or_file)
    if not path.is_file():
        return scenario(name_or_file)
    try:
        return read_plan(path.read_text(encoding="utf-8"))
    except UnreadableStory as error:
        raise UnreadableStory(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise UnreadableStory(f"{path} is no text") from None


def _folder() -> Traversable:
    return files("regroup.lab.plan") / "scenarios"
