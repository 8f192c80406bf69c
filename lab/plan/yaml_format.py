"""Plans as YAML: reads a scenario file and writes one.

    scenario: The leader crashes between its JoinGroup response and its SyncGroup
    topics: {orders: 4}
    members: [anna, ben, carla]
    steps:
      - at 0s: [anna joins, ben joins, carla joins]
      - after anna is elected leader: anna crashes
      - at 70s: within 10s the group is Stable with ben and carla

Further options of a plan: `settings`, `brokers`, `network: {latency: 20ms, jitter: 5ms}`, `disk latency`, `workload:
{records per s: 20}`, `seed`, `faults end at`, `recovers within`. Members may be a mapping of names to options: `ben:
{instance id: ben-1, session timeout: 10s, faults: ["slow-join:5s"]}`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import yaml

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.sentences import MEMBER_NAME
from regroup.lab.plan.step_sentences import parse_step
from regroup.lab.plan.triggers import parse_trigger
from regroup.lab.plan.validation import invalid_member_name, plan_problems
from regroup.lab.plan.yaml_options import InvalidScenarioOption, read_options, write_options
from regroup.notation.yaml_keys import UniqueKeyLoader

__all__ = ["InvalidScenario", "read_plan", "write_plan"]

_LAST_OPTIONS: Final = {"members": 1, "steps": 2, "faults end at": 3, "recovers within": 4}
"""The options that are written last, by their order; all others come before them in the order of the plan's fields."""


class InvalidScenario(ValueError):
    """A file that is not a scenario. The message quotes the line and says what to write."""


def read_plan(text: str) -> SimulationPlan:
    """The plan in a scenario file. Raises InvalidScenario, also for a plan that cannot be played."""
    try:
        content = yaml.load(text, UniqueKeyLoader)
        plan = _read_plan(content)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise InvalidScenario(_at_line(text, line, f"{error.problem or error}")) from None
    except InvalidScenarioOption as error:
        raise InvalidScenario(_about(text, error.about, str(error))) from None
    for problem in plan_problems(plan):
        raise InvalidScenario(_about(text, problem.about, problem.text))
    return plan


def write_plan(plan: SimulationPlan) -> str:
    """A scenario file with this plan."""
    options = {key: _Flow(value) if isinstance(value, Mapping) else value for key, value in write_options(plan).items()}
    members = {name: _Flow(write_options(planned)) for name, planned in plan.members.items()}
    options["members"] = members if any(members.values()) else _FlowList(members)
    options["steps"] = list(_write_steps(plan.steps))
    keys = sorted(options, key=lambda key: _LAST_OPTIONS.get(key, 0))
    return yaml.dump(
        {key: options[key] for key in keys}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
    )


# -- reading


def _read_plan(content: object) -> SimulationPlan:
    if not isinstance(content, Mapping):
        raise InvalidScenarioOption("", "a scenario begins with 'scenario: its title', and has members and steps")
    others = {key: value for key, value in content.items() if key not in ("members", "steps")}
    options = read_options(SimulationPlan, others, "a scenario")
    steps = content.get("steps") or []
    if not isinstance(steps, list):
        raise InvalidScenarioOption("steps", "steps are a list of lines such as '- at 0s: anna joins'")
    return SimulationPlan(
        **options,
        members=dict(_read_members(content.get("members") or {})),
        steps=tuple(planned for line in steps for planned in _read_steps(line)),
    )


def _read_members(given: object) -> Iterator[tuple[str, MemberPlan]]:
    if isinstance(given, list):
        given = dict.fromkeys(given)
    if not isinstance(given, Mapping):
        raise InvalidScenarioOption("members", "members are a list of names, or names with options")
    for name, options in given.items():
        if not isinstance(name, str):
            raise InvalidScenarioOption(name, f"a member's name is text, not {name!r}; put it in quotes")
        if not MEMBER_NAME.matches(name):
            raise InvalidScenarioOption(name, invalid_member_name(name))
        yield name, MemberPlan(**read_options(MemberPlan, options or {}, name))


def _read_steps(line: object) -> Iterator[PlannedStep]:
    if not isinstance(line, Mapping) or len(line) != 1:
        message = f"a step is a trigger and what happens, such as 'at 0s: anna joins', not {line!r}"
        raise InvalidScenarioOption(line, message)
    ((when, given),) = line.items()
    trigger = _parse(parse_trigger, when)
    sentences = given if isinstance(given, list) else [given]
    for number, sentence in enumerate(sentences):
        try:
            yield PlannedStep(trigger, _parse(parse_step, sentence))
        except InvalidScenarioOption as error:
            raise _split_at_comma(sentences[:number], error) or error from None


def _split_at_comma(before: list[Any], error: InvalidScenarioOption) -> InvalidScenarioOption | None:
    """A better error if YAML has split a sentence at a comma within [ ]; None if that is not the reason."""
    whole = ", ".join(str(sentence) for sentence in (*before[-1:], error.about))
    try:
        parse_step(whole)
    except ValueError:
        return None
    message = f"within [ ] a comma ends a sentence: put {whole!r} in quotes, or on a line of its own"
    return InvalidScenarioOption(error.about, message)


def _parse(parse: Any, text: object) -> Any:
    if not isinstance(text, str):
        raise InvalidScenarioOption(text, f"not a sentence: {text!r}")
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidScenarioOption(text, str(error)) from None


def _about(text: str, word: str, problem: str) -> str:
    """The message of a problem in a scenario file: `problem`, with the first line of the file that has `word`.

    Comments are passed over.
    """
    whole_word = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    lines = [line for line in enumerate(text.splitlines()) if word and not line[1].lstrip().startswith("#")]
    number = next((number for number, line in lines if whole_word.search(line)), None)
    return problem if number is None else _at_line(text, number, problem)


def _at_line(text: str, number: int, problem: str) -> str:
    lines = text.splitlines()
    quoted = f" ({lines[number].strip()})" if number < len(lines) else ""
    return f"line {number + 1}{quoted}: {problem}"


# -- writing


class _Flow(dict[str, Any]):
    """A mapping that is written on one line of YAML, in braces."""


class _FlowList(list[str]):
    """A list that is written on one line of YAML, in brackets."""


def _write_steps(steps: tuple[PlannedStep, ...]) -> Iterator[dict[str, Any]]:
    """Write the steps as a list; successive steps with the same trigger share one entry."""
    for trigger, together in groupby(steps, key=lambda planned: planned.trigger):
        sentences = [str(planned.step) for planned in together]
        yield {str(trigger): _FlowList(sentences) if len(sentences) > 1 else sentences[0]}


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)


_Dumper.add_representer(
    _Flow, lambda dumper, value: dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)
)
_Dumper.add_representer(
    _FlowList, lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)
)
