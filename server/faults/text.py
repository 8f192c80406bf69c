"""Fault rules as lines of text, for the prompt of `regroup serve`.

    fault on=OffsetCommit group=billing answer=COORDINATOR_NOT_AVAILABLE times=2
    fault on=SyncGroup client_id=first hold
    faults          every rule in force: number, conditions, effect, and how often it matched and hit
    release 2       go on with the requests that rule 2 holds
    remove 2        end rule 2

A field whose value is true may be written without it: `hold`. Values with blanks are quoted as in a shell.
"""

import shlex
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from regroup.server.faults.fields import CONDITIONS, COUNTS, EFFECTS, read_rule, shown, written_fields
from regroup.server.faults.gate import ActiveFault, FaultRules
from regroup.server.faults.rule import FaultRule, InvalidFault

FAULT_WORDS: Final = ("fault", "faults", "release", "remove")
"""The first words of the commands about fault rules."""
USAGE: Final = "type fault FIELD=VALUE ..., faults, release N or remove N"


class AddFault(msgspec.Struct, frozen=True):
    """The command `fault …`, which puts a rule in force."""

    rule: FaultRule


class ListFaults(msgspec.Struct, frozen=True):
    """The command `faults`, which lists the rules in force."""


class ReleaseFault(msgspec.Struct, frozen=True):
    """The command `release N`, which continues with the requests that rule N holds."""

    number: int


class RemoveFault(msgspec.Struct, frozen=True):
    """The command `remove N`, which ends rule N."""

    number: int


FaultCommand: TypeAlias = AddFault | ListFaults | ReleaseFault | RemoveFault


class FaultLine(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in force, as the command `faults` lists it."""

    number: int
    conditions: str
    """The conditions of the rule: `on=OffsetCommit group=billing times=2`. Empty for a rule that matches every
    request."""
    effect: str
    """What the rule does: `answer=COORDINATOR_NOT_AVAILABLE`."""
    matched: int
    hits: int
    held: int
    """How many requests the rule holds, which wait for `release`."""
    is_spent: bool
    """Whether the rule has hit as many requests as `times` allows."""


def parse_fault_command(line: str) -> FaultCommand:
    """Parse a line of the prompt, such as `release 2`, and return the command. Raises InvalidFault if the line is no
    valid command."""
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if word == "fault":
        return AddFault(parse_rule(rest))
    if word == "faults" and not rest:
        return ListFaults()
    if word in ("release", "remove") and rest.isascii() and rest.isdecimal() and len(rest) <= 9:
        return ReleaseFault(int(rest)) if word == "release" else RemoveFault(int(rest))
    raise InvalidFault(f"invalid command: {shown(line.strip())}; {USAGE}")


def run_fault_command(rules: FaultRules, line: str) -> list[str]:
    """Execute the command in a line, and return the lines to print. Raises InvalidFault or UnknownRule."""
    command = parse_fault_command(line)
    if isinstance(command, AddFault):
        return [format_fault(describe_fault(rules.add(command.rule)))]
    if isinstance(command, ListFaults):
        return [format_fault(describe_fault(fault)) for fault in rules.active()] or ["no rule is in force"]
    fault = rules.find(command.number)
    if isinstance(command, ReleaseFault):
        released = fault.release()
        return [f"rule {fault.number}: {released} {'request' if released == 1 else 'requests'} released"]
    rules.remove(fault)
    return [f"rule {fault.number} removed after {fault.hits} {'hit' if fault.hits == 1 else 'hits'}"]


def parse_rule(text: str) -> FaultRule:
    """The fault rule in a text such as `on=OffsetCommit drop=answer times=2`. Raises InvalidFault."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidFault(f"invalid quotes in {shown(text)}: {error}") from None
    fields: dict[str, object] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if name in fields:
            raise InvalidFault(f"field {shown(name)} is given twice")
        fields[name] = value if separator else "true"
    return read_rule(fields, from_text=True)


def describe_fault(fault: ActiveFault) -> FaultLine:
    """A rule in force as the command `faults` lists it."""
    return FaultLine(
        number=fault.number,
        conditions=_format(fault.rule, (*CONDITIONS, *COUNTS)),
        effect=_format(fault.rule, EFFECTS),
        matched=fault.matched,
        hits=fault.hits,
        held=len(fault.held),
        is_spent=fault.is_spent,
    )


def format_fault(line: FaultLine) -> str:
    """A rule in force as a line of text: `2  on=SyncGroup  hold  matched 3, hit 3, holds 1`."""
    counts = f"matched {line.matched}, hit {line.hits}"
    held = f", holds {line.held}" if line.held else ""
    spent = ", spent" if line.is_spent else ""
    return f"{line.number}  {line.conditions or 'every request'}  {line.effect}  {counts}{held}{spent}"


def _format(rule: FaultRule, names: Iterable[str]) -> str:
    fields = written_fields(rule, names).items()
    return " ".join(name if value == "true" else f"{name}={shlex.quote(value)}" for name, value in fields)
