"""Plans as YAML that people like to read.

    story: The leader crashes between the answer to her JoinGroup and her SyncGroup
    topics: {orders: 4}
    members: [anna, ben, carla]
    happenings:
      - at 0s: [anna joins, ben joins, carla joins]
      - after anna is elected leader: anna crashes
      - at 70s: within 10s the group is stable with ben and carla

Whatever a plan has besides may be given, too: `settings`, `brokers`, `network: {latency: 20ms, jitter: 5ms}`, `disk
latency`, `workload: {records per s: 20}`, `seed`, `faults end at`, `well again within`; and members may be a mapping of
names to options: `ben: {instance id: ben-1, session timeout: 10s, habits: ["slow-join:5s"]}`.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import yaml

from regroup.lab.plan.plan import Happening, MemberPlan, Plan
from regroup.lab.plan.steps import parse_step
from regroup.lab.plan.triggers import parse_when
from regroup.lab.plan.validation import problems
from regroup.lab.plan.yaml_options import WrongText, read_options, write_options

AT_THE_END: Final = {"members": 1, "happenings": 2, "faults end at": 3, "well again within": 4}


class UnreadableStory(ValueError):
    """A file that is no story; the message quotes the line and says what would do."""


def read_plan(text: str) -> Plan:
    """The plan that a file holds. Raises UnreadableStory also for a plan that cannot be played."""
    try:
        content = yaml.load(text, _Loader)
        plan = _plan(content)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise UnreadableStory(_at_line(text, line, f"{error.problem or error}")) from None
    except WrongText as error:
        raise UnreadableStory(_about(text, error.about, str(error))) from None
    for problem in problems(plan):
        raise UnreadableStory(_about(text, problem.about, problem.text))
    return plan


def write_plan(plan: Plan) -> str:
    """A file that `read_plan` reads as this plan."""
    options = {key: _Flow(value) if isinstance(value, Mapping) else value for key, value in write_options(plan).items()}
    members = {name: _Flow(write_options(planned)) for name, planned in plan.members.items()}
    options["members"] = members if any(members.values()) else _FlowList(members)
    options["happenings"] = list(_lines(plan.happenings))
    told = sorted(options, key=lambda key: AT_THE_END.get(key, 0))
    return yaml.dump(
        {key: options[key] for key in told}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
    )


# -- reading


def _plan(content: object) -> Plan:
    if not isinstance(content, Mapping):
        raise WrongText("", "a story begins with 'story: its title', and has members and happenings")
    rest = {key: value for key, value in content.items() if key not in ("members", "happenings")}
    options = read_options(Plan, rest, "a story")
    happenings = content.get("happenings") or []
    if not isinstance(happenings, list):
        raise WrongText("happenings", "happenings are a list of lines such as '- at 0s: anna joins'")
    return Plan(
        **options,
        members=dict(_members(content.get("members") or {})),
        happenings=tuple(happening for line in happenings for happening in _happenings(line)),
    )


def _members(given: object) -> Iterator[tuple[str, MemberPlan]]:
    if isinstance(given, list):
        given = dict.fromkeys(given)
    if not isinstance(given, Mapping):
        raise WrongText("members", "members are a list of names, or names with options")
    for name, options in given.items():
        if not isinstance(name, str):
            raise WrongText(name, f"a member's name is text, not {name!r}; put it in quotes")
        yield name, MemberPlan(**read_options(MemberPlan, options or {}, name))


def _happenings(line: object) -> Iterator[Happening]:
    if not isinstance(line, Mapping) or len(line) != 1:
        raise WrongText(line, f"a happening is a moment and what happens, such as 'at 0s: anna joins', not {line!r}")
    ((moment, sentences),) = line.items()
    when = _parsed(parse_when, moment)
    together = sentences if isinstance(sentences, list) else [sentences]
    for number, sentence in enumerate(together):
        try:
            yield Happening(when, _parsed(parse_step, sentence))
        except WrongText as error:
            raise _cut_in_two(together[:number], error) or error from None


def _cut_in_two(before: list[Any], error: WrongText) -> WrongText | None:
    """YAML cuts what stands in [ ] at each comma, also within a sentence."""
    whole = ", ".join(str(sentence) for sentence in (*before[-1:], error.about))
    try:
        parse_step(whole)
    except ValueError:
        return None
    return WrongText(error.about, f"in [ ] a comma ends a sentence: put {whole!r} in quotes, or in a line of its own")


def _parsed(parse: Any, text: object) -> Any:
    if not isinstance(text, str):
        raise WrongText(text, f"{text!r} is no sentence")
    try:
        return parse(text)
    except ValueError as error:
        raise WrongText(text, str(error)) from None


def _about(text: str, word: str, problem: str) -> str:
    """The problem with the first line that has the word in it."""
    lines = text.splitlines()
    whole_word = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    number = next((number for number, line in enumerate(lines) if word and whole_word.search(line)), None)
    return problem if number is None else _at_line(text, number, problem)


def _at_line(text: str, number: int, problem: str) -> str:
    lines = text.splitlines()
    quoted = f" ({lines[number].strip()})" if number < len(lines) else ""
    return f"line {number + 1}{quoted}: {problem}"


class _Loader(yaml.SafeLoader):
    """YAML itself lets a later key replace an earlier one; here that would make a member vanish without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, None] = {}
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is here twice", key.start_mark)
            seen[key.value] = None
        return super().construct_mapping(node, deep)


# -- writing


class _Flow(dict[str, Any]):
    """Written within one line."""


class _FlowList(list[str]):
    """Written within one line."""


def _lines(happenings: tuple[Happening, ...]) -> Iterator[dict[str, Any]]:
    """What happens in one moment stands in one line."""
    for when, together in groupby(happenings, key=lambda happening: happening.when):
        sentences = [str(happening.step) for happening in together]
        yield {str(when): _FlowList(sentences) if len(sentences) > 1 else sentences[0]}


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)


_Dumper.add_representer(
    _Flow, lambda dumper, value: dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)
)
_Dumper.add_representer(
    _FlowList, lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)
)
