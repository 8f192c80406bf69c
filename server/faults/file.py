"""Rules in a YAML file: a list of rules with the fields of FaultRule."""

import os
from pathlib import Path

import msgspec
import yaml

from regroup.server.faults.rule import FaultRule, InvalidFault


def load_fault_rules(path: str | os.PathLike[str]) -> list[FaultRule]:
    """The rules of a file, in their order. Raises OSError, or InvalidFault with one line that names the file."""
    try:
        return msgspec.convert(yaml.safe_load(Path(path).read_bytes()), list[FaultRule])
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidFault(f"{os.fspath(path)}: {' '.join(str(error).split())}") from None
