"""Reads fault rules from a YAML file: a list of rules with the fields of FaultRule.

- on: OffsetCommit
  group: billing
  answer: COORDINATOR_NOT_AVAILABLE
  times: 2
- on: [JoinGroup, SyncGroup]
  client_id: first
  answer_delay_s: 300ms
"""

import os
from pathlib import Path
from typing import Final

import yaml

from regroup.notation.yaml_keys import UniqueKeyLoader
from regroup.server.faults.fields import read_rule, shown
from regroup.server.faults.gate import MAX_RULES
from regroup.server.faults.rule import FaultRule, InvalidFault

MAX_FILE_BYTES: Final = 1024 * 1024


def load_fault_rules(path: str | os.PathLike[str]) -> list[FaultRule]:
    """The fault rules in a file, in their order.

    Raises OSError, or InvalidFault with one line that names the file and the number of the rule.
    """
    with Path(path).open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    try:
        if len(content) > MAX_FILE_BYTES:
            raise InvalidFault(f"more than {MAX_FILE_BYTES} bytes")
        return read_fault_rules(content.decode())
    except UnicodeDecodeError as error:
        raise InvalidFault(f"{os.fspath(path)}: not UTF-8: {error.reason} at byte {error.start}") from None
    except InvalidFault as error:
        raise InvalidFault(f"{os.fspath(path)}: {error}") from None


def read_fault_rules(text: str) -> list[FaultRule]:
    """The fault rules in the text of a YAML file. Raises InvalidFault, with the number of the rule."""
    try:
        listed = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidFault(f"line {line}: {error.problem or 'invalid YAML'}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidFault(f"invalid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(listed, list):
        raise InvalidFault("a list of rules is expected, each beginning as in '- on: OffsetCommit'")
    if len(listed) > MAX_RULES:
        raise InvalidFault(f"{len(listed)} rules; {MAX_RULES} are allowed")
    return [_read_numbered(number, fields) for number, fields in enumerate(listed, start=1)]


def _read_numbered(number: int, fields: object) -> FaultRule:
    if not isinstance(fields, dict):
        raise InvalidFault(f"rule {number}: fields with values are expected, not {shown(fields)}")
    try:
        return read_rule(fields)
    except InvalidFault as error:
        raise InvalidFault(f"rule {number}: {error}") from None


class _Loader(UniqueKeyLoader):
    """Loads `on` and `no` as text, as YAML 1.2 does. YAML 1.1 would read the field name `on` as True."""


_BOOL: Final = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL or first in "tTfF"]
    for first, resolvers in UniqueKeyLoader.yaml_implicit_resolvers.items()
}
