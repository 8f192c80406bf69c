"""Reads a lesson from the text of its YAML file.

read_lesson(text)      Lesson, or InvalidLesson: `line 12, question.unit: …`
"""

import re
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any, Final

import msgspec
import yaml

from regroup.classroom.lessons.format.parts import Lesson, LessonFile, convert_duration
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.scenario_files import scenario_text
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan
from regroup.notation.yaml_keys import UniqueKeyLoader

MAX_LESSON_BYTES: Final = 200_000
LESSON_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_BOOLEAN_TAG: Final = "tag:yaml.org,2002:bool"
_CHOICES: Final = ".choices"
_ERROR_PATH: Final = re.compile(r"(?s)(.*?)(?: - at `(?:key in )?\$(.*)`)?")


class InvalidLesson(ValueError):
    """Raised for a file that is no valid lesson. The message has the line, the field, and what to write there."""


class LessonLoader(UniqueKeyLoader):
    """A YAML loader that refuses anchors, with which a small file could become a very large value."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases such as *name are not read", mark)
        return super().compose_node(parent, index)


def read_lesson(text: str) -> Lesson:
    """The lesson in a file's text. Raises InvalidLesson."""
    if len(text.encode()) > MAX_LESSON_BYTES:
        raise InvalidLesson(f"the file is larger than {MAX_LESSON_BYTES:,} bytes, the limit for a lesson")
    node, content = _load(text)
    lines = dict(_lines(node, ""))
    for line, path, written in _without_quotes(node, ""):
        raise InvalidLesson(f"line {line}, {path}: YAML does not read {written} as text; put it in quotes: '{written}'")
    parts = _parts(content, lines)
    if not LESSON_ID.fullmatch(parts.lesson):
        raise InvalidLesson(at_line(lines, "lesson", f"invalid id {parts.lesson!r}; use small letters, digits and '-'"))
    plan, scenario = _read_scenario(parts, text, node, lines)
    return Lesson(parts=parts, plan=plan, scenario=scenario, lines=lines)


def at_line(lines: Mapping[str, int], path: str, problem: str) -> str:
    """A problem with its line and path before it: `line 12, question.unit: …`.

    `lines` has the line of each path in the file; if it lacks `path`, that of the nearest enclosing part is given.
    """
    nearest = path
    while nearest and nearest not in lines:
        nearest = re.sub(r"(\.[^.\[\]]+|\[[^\]]*\]|^[^.\[\]]+)$", "", nearest)
    where = f"line {lines.get(nearest, 1)}"
    return f"{where}, {path}: {problem}" if path else f"{where}: {problem}"


def _load(text: str) -> tuple[yaml.Node, object]:
    try:
        loader = LessonLoader(text)
        try:
            node = loader.get_single_node()
            content = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidLesson(f"line {line}: {error.problem or error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidLesson(f"not YAML: {error}") from None
    except RecursionError:
        raise InvalidLesson("not a lesson: its mappings are nested too deep") from None
    if node is None or not isinstance(content, Mapping):
        raise InvalidLesson("line 1: a lesson is a mapping that begins with 'lesson: its-id'")
    return node, content


def _lines(node: yaml.Node, path: str) -> Iterator[tuple[str, int]]:
    """Yield the path of every part below `node`, such as `task.settings.timeout`, with its line."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{path}.{key.value}" if path else str(key.value)
            yield name, key.start_mark.line + 1
            yield from _lines(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            name = f"{path}[{index}]"
            yield name, value.start_mark.line + 1
            yield from _lines(value, name)


def _without_quotes(node: yaml.Node, path: str) -> Iterator[tuple[int, str, str]]:
    """Yield the words that need quotes, each with its line and path.

    These are keys that YAML reads as true or false (`no`), and choices that it reads as anything but text.
    """
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{path}.{key.value}" if path else str(key.value)
            if key.tag == _BOOLEAN_TAG or (path.endswith(_CHOICES) and key.tag != _TEXT_TAG):
                yield key.start_mark.line + 1, path or name, key.value
            if path.endswith(_CHOICES) and isinstance(value, yaml.ScalarNode) and value.tag != _TEXT_TAG:
                yield value.start_mark.line + 1, name, value.value
            yield from _without_quotes(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            if path.endswith(_CHOICES) and isinstance(value, yaml.ScalarNode) and value.tag != _TEXT_TAG:
                yield value.start_mark.line + 1, f"{path}[{index}]", value.value
            yield from _without_quotes(value, f"{path}[{index}]")


def _parts(content: object, lines: Mapping[str, int]) -> LessonFile:
    try:
        return msgspec.convert(content, LessonFile, dec_hook=convert_duration)
    except msgspec.ValidationError as error:
        match = _ERROR_PATH.fullmatch(str(error))
        assert match is not None
        path, problem = (match[2] or "").lstrip("."), match[1]
        unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem)
        if unknown:
            path, problem = f"{path}.{unknown[1]}".lstrip("."), "unknown field"
        raise InvalidLesson(at_line(lines, path, _readable(problem))) from None


def _readable(problem: str) -> str:
    missing = re.fullmatch(r"Object missing required field `(.*)`", problem)
    if missing:
        return f"the field '{missing[1]}' is missing"
    names = {"`object`": "a mapping", "`array`": "a list", "`str`": "text", "`int`": "a whole number"}
    for name, word in {**names, "`bool`": "true or false", "`null`": "nothing"}.items():
        problem = problem.replace(name, word)
    return problem[:1].lower() + problem[1:]


def _read_scenario(
    parts: LessonFile, text: str, node: yaml.Node, lines: Mapping[str, int]
) -> tuple[SimulationPlan, Mapping[str, Any]]:
    """The plan of the lesson's scenario, and the scenario as plain values.

    Raises InvalidScenario or InvalidLesson; the line in the message is that in the lesson's file.
    """
    if isinstance(parts.scenario, str):
        try:
            source = scenario_text(parts.scenario)
        except ValueError as error:
            raise InvalidLesson(at_line(lines, "scenario", str(error))) from None
        return read_plan(source), yaml.load(source, UniqueKeyLoader)
    assert isinstance(node, yaml.MappingNode)
    scenario_node = next(value for key, value in node.value if key.value == "scenario")
    try:
        return read_plan(_at_its_lines(text, scenario_node)), parts.scenario
    except InvalidScenario as error:
        named = re.fullmatch(r"(?s)line (\d+) (.*)", str(error))
        where = f"line {named[1]}, scenario {named[2]}" if named else at_line(lines, "scenario", str(error))
        raise InvalidLesson(where) from None


def _at_its_lines(text: str, node: yaml.Node) -> str:
    """The text of one part of the file, with empty lines before it, so that its line numbers are those in the file."""
    start, end = node.start_mark, node.end_mark
    part = " " * start.column + text[start.index : end.index]
    return "\n" * start.line + dedent(part)
