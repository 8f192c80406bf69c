"""Fault rules in YAML files."""

from pathlib import Path

import pytest

from regroup.protocol.errors import ErrorCode
from regroup.server.faults.file import load_fault_rules, read_fault_rules
from regroup.server.faults.rule import FaultRule, InvalidFault

FILE = """
# commits fail twice, then the leader's answers are late
- on: OffsetCommit
  group: billing
  answer: COORDINATOR_NOT_AVAILABLE
  times: 2
- on: [JoinGroup, SyncGroup]
  client_id: first
  answer_delay_s: 300ms
  expires_after_s: 90
- {on: Fetch, topic: orders, partitions: [0, 2], partition_error: 6}
- {hold: true, group: no, throttle_ms: 2s}
"""


def test_a_file_has_the_fields_of_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(FILE, encoding="utf-8")
    assert load_fault_rules(path) == [
        FaultRule(on="OffsetCommit", group="billing", answer=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2),
        FaultRule(on=("JoinGroup", "SyncGroup"), client_id="first", answer_delay_s=0.3, expires_after_s=90),
        FaultRule(on="Fetch", topic="orders", partitions=(0, 2), partition_error=6),
        FaultRule(hold=True, group="no", throttle_ms=2000),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a list of rules is expected, each beginning as in '- on: OffsetCommit'"),
        ("on: OffsetCommit", "a list of rules is expected"),
        ("- drop: answer\n- drop", "rule 2: fields with values are expected, not 'drop'"),
        ("- {grup: billing, drop: answer}", "rule 1: unknown field 'grup': did you mean group?"),
        ("- {5: billing, drop: answer}", "rule 1: unknown field 5: known are on, version"),
        ("- {group: 5, drop: answer}", "rule 1: invalid group: 5; give text, in quotes if it looks like a number"),
        ("- {times: two, drop: answer}", "rule 1: invalid times: 'two'; give a whole number"),
        ("- {times: '2', drop: answer}", "rule 1: invalid times: '2'; give a whole number"),
        ("- {hold: yes}", "rule 1: invalid hold: 'yes'; give true or false"),
        ("- {on: Fetch, answer: 6.5}", "rule 1: invalid answer: 6.5; give a whole number"),
        ("- {on: Fetch, answer: LEADER}", "rule 1: unknown error code 'LEADER'"),
        ("- {on: Fetsch, hold: true}", "rule 1: unknown API 'Fetsch': did you mean Fetch?"),
        ("- {on: {a: b}, hold: true}", "rule 1: invalid on: {'a': 'b'}; give the name of an API, or a list of them"),
        ("- {delay_s: soon}", "rule 1: invalid delay_s: 'soon'; give a duration such as 300ms, 5s or 1m"),
        ("- {delay_s: .nan}", "rule 1: invalid delay_s: nan; give 0 to 3600"),
        ("- hold: true\n  hold: false", "line 2: duplicate key: 'hold'"),
        ("- ? [a]\n  : b", "line 1: found unhashable key"),
        ("- [", "line 1: "),
        ("- &a [*a]", "rule 1: fields with values are expected"),
        ("- 2026-99-99", "invalid YAML: month must be in 1..12"),
        pytest.param("[" * 1000, "invalid YAML: ", id="nested"),
    ],
)
def test_a_wrong_file_gets_one_line_with_its_name_and_the_number_of_the_rule(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFault) as caught:
        load_fault_rules(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_bytes(b"- group: \xff")
    with pytest.raises(InvalidFault, match="not UTF-8: invalid start byte at byte 9"):
        load_fault_rules(path)
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(InvalidFault, match="more than 1048576 bytes"):
        load_fault_rules(path)
    with pytest.raises(FileNotFoundError):
        load_fault_rules(tmp_path / "missing.yaml")


def test_a_file_with_too_many_rules_is_refused() -> None:
    with pytest.raises(InvalidFault, match="1001 rules; 1000 are allowed"):
        read_fault_rules("- hold: true\n" * 1001)
