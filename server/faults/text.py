"""Rules as lines of text, for a prompt."""

import shlex
from typing import Final

import msgspec

from regroup.server.faults.gate import FaultRules
from regroup.server.faults.rule import FaultRule, InvalidFault

FAULT_WORDS: Final = ("fault", "faults", "release", "remove")
"""The first words of the commands."""


def run_fault_command(rules: FaultRules, line: str) -> list[str]:
    """Do what a line says, and return the lines to show. Raises InvalidFault or UnknownRule."""
    word, _, rest = line.strip().partition(" ")
    if word == "fault":
        fields = dict(each.partition("=")[::2] for each in shlex.split(rest))
        try:
            fault = rules.add(msgspec.convert(fields, FaultRule, strict=False))
        except msgspec.ValidationError as error:
            raise InvalidFault(str(error)) from None
        return [f"{fault.number}  {fault.rule.effect}"]
    if word == "faults":
        return [f"{fault.number}  {fault.rule.effect}" for fault in rules.active()] or ["no rule is in force"]
    if not rest.strip().isdecimal():
        raise InvalidFault(f"invalid command: {line!r}")
    fault = rules.find(int(rest))
    if word == "release":
        fault.release()
    else:
        rules.remove(fault)
    return [f"rule {fault.number}: {word}d"]
