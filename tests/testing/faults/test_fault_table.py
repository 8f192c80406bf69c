"""The table of conditions and effects in docs/testing.md, the arguments of `fault`, and the fields of rules agree."""

import re
from pathlib import Path

import pytest
import yaml

from regroup.server.faults.fields import CONDITIONS, COUNTS, EFFECTS
from regroup.server.faults.file import read_fault_rules
from regroup.server.faults.rule import FALSE_ANSWERS, FaultRule
from regroup.server.faults.text import parse_rule
from regroup.testing.emulator import Emulator
from regroup.testing.faults import FaultConditions, FaultOptions

GUIDE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")


def first_column(header: str) -> list[str]:
    """The names in backticks of the first column of a table."""
    table = GUIDE.split(f"\n| {header} |")[1].split("\n\n")[0]
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    return [name for row in rows for name in re.findall(r'`"?(\w+)"?`', row.split("|")[1])]


@pytest.mark.parametrize(
    ("header", "fields"),
    [("Condition", CONDITIONS), ("How often", COUNTS), ("Effect", EFFECTS), ("`false_answer` | to", FALSE_ANSWERS)],
)
def test_the_guide_has_a_row_for_every_field(header: str, fields: tuple[str, ...]) -> None:
    assert sorted(first_column(header)) == sorted(fields)


def test_the_apis_of_false_answers_in_the_guide_are_true() -> None:
    rows = re.findall(r'\n\| `"(\w+)"` \| (\w+) \|', GUIDE)
    assert dict(rows) == FALSE_ANSWERS


def test_every_field_of_a_rule_is_an_argument_of_fault() -> None:
    assert set(FaultOptions.__annotations__) == set(FaultRule.__struct_fields__)
    assert set(FaultConditions.__annotations__) == {*CONDITIONS, *COUNTS} - {"on"}


def test_the_documentation_of_fault_names_every_field() -> None:
    named = set(re.findall(r"`(\w+)", Emulator.fault.__doc__ or ""))
    assert set(FaultRule.__struct_fields__) - {"hold"} <= named


def test_the_rules_of_the_guide_are_read() -> None:
    (block,) = re.findall(r"```yaml\n(- on:.*?)```", GUIDE, re.DOTALL)
    rules = read_fault_rules(block)
    assert len(rules) == len(yaml.safe_load(block)) == 2
    (line,) = re.findall(r"In one line the first is `(.*?)`", GUIDE)
    assert parse_rule(line) == rules[0]
