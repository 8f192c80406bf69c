"""Lists everything that a scenario file may contain, in tables, for `regroup chaos words` and the documentation.

Words and meanings come from where the lab defines them: templates, docstrings and defaults.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Final, NamedTuple, get_args

from regroup.lab.plan import steps
from regroup.lab.plan.expectations import Expectation
from regroup.lab.plan.plan import MemberPlan, NetworkPlan, SimulationPlan
from regroup.lab.plan.sentences import PLACEHOLDERS, Sentence, Template
from regroup.lab.plan.step_sentences import STEP_TYPES
from regroup.lab.plan.triggers import MILESTONE_MEANINGS
from regroup.lab.plan.yaml_options import option_name, write_options
from regroup.members.runtime.workload import Workload

_NAME_IN_BRACES: Final = re.compile(r"\{(\w+)\}")


class ReferenceRow(NamedTuple):
    """Words that a scenario file may contain, and what they mean."""

    words: str
    meaning: str


class ReferenceTable(NamedTuple):
    """One table of the reference: its title and its rows, for one kind of word."""

    title: str
    rows: tuple[ReferenceRow, ...]


def scenario_reference() -> tuple[ReferenceTable, ...]:
    """Every step, expectation, trigger and option."""
    kinds = (
        ("Steps: members", steps.MemberStep),
        ("Steps: transactions", steps.TransactionStep),
        ("Steps: other clients", steps.ClientStep),
        ("Steps: network", steps.NetworkStep),
        ("Steps: brokers", steps.BrokerStep),
        ("Steps: disk and Kafka's log", steps.StorageStep),
        ("Steps: topics", steps.TopicStep),
        ("Expectations", Expectation),
    )
    options = (
        ("Options of a scenario", SimulationPlan),
        ("Options of a member", MemberPlan),
        ("Options of the network", NetworkPlan),
        ("Options of the workload", Workload),
    )
    return (
        *(ReferenceTable(title, tuple(map(_sentence_row, get_args(kind)))) for title, kind in kinds),
        ReferenceTable("Triggers", tuple(_trigger_rows())),
        ReferenceTable("Words in capitals", tuple(_value_rows())),
        *(ReferenceTable(title, tuple(_option_rows(kind))) for title, kind in options),
    )


def _sentence_row(kind: type[Sentence]) -> ReferenceRow:
    return ReferenceRow(" / ".join(map(with_capitals, kind.templates)), _summary(kind))


def _trigger_rows() -> Iterator[ReferenceRow]:
    yield ReferenceRow("at 20s", "At this time after the start.")
    yield ReferenceRow("5s after the group is Stable", "So long after the first time that a milestone is reached.")
    for text, meaning in MILESTONE_MEANINGS.items():
        yield ReferenceRow(f"after {with_capitals(text)}", meaning)


def with_capitals(template: str) -> str:
    """A template with the names of its values in capitals: `MEMBER pauses for DURATION`."""
    return _NAME_IN_BRACES.sub(lambda name: _capitals(name[1]), template)


def _capitals(name: str) -> str:
    return name.removesuffix("_ms").replace("_", "-").upper()


def _value_rows() -> Iterator[ReferenceRow]:
    """What the words in capitals stand for, by examples."""
    templates = [*(each for kind in STEP_TYPES for each in kind.templates), *MILESTONE_MEANINGS]
    for name in dict.fromkeys(name for text in templates for name in Template(text).names):
        placeholder = PLACEHOLDERS[name]
        yield ReferenceRow(_capitals(name), f"For example {placeholder.format(placeholder.example)}.")


def _option_rows(kind: type[Any]) -> Iterator[ReferenceRow]:
    """A row for each option of a struct, with its default. `members` and `steps` of a plan are shown without one."""
    defaults = write_options(kind(), include_defaults=True)
    for name, meaning in field_meanings(kind).items():
        default = defaults[option_name(name)]
        is_shown = default not in (None, "", [], {}) and not isinstance(default, dict)
        yield ReferenceRow(option_name(name), f"{meaning} Default: {_default(default)}." if is_shown else meaning)


def _default(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


def field_meanings(kind: type[Any]) -> dict[str, str]:
    """The meaning of each field of a class: the first paragraph of the string that follows the field in the source."""
    assert is_dataclass(kind) or hasattr(kind, "__struct_fields__")
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    meanings: dict[str, str] = {}
    for field, behind in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match behind:
                case ast.Expr(ast.Constant(str() as text)):
                    meanings[field.target.id] = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
                case _:
                    meanings[field.target.id] = ""
    return meanings


def _summary(kind: type[Any]) -> str:
    """The first paragraph of a class's docstring on one line, with the names of its fields in capitals."""
    text = " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
    return re.sub(r"`(\w+)`", lambda name: _capitals(name[1]) if name[1] in PLACEHOLDERS else name[0], text)
