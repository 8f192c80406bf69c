"""Types of command-line arguments, and the import of code by name when it is needed.

A parser is built for every `--help`, so its module imports nothing that only the command's job needs. It names the
job, and the parsers of rare values, as `module:function`; `load` imports them.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

from regroup.notation.addresses import MAX_PORT
from regroup.notation.durations import parse_duration_ms

Value = TypeVar("Value")


def load(name: str) -> Any:
    """Import the module of `module:name`, and return its attribute of that name."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def argument_type(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Make an argparse type from a function that raises ValueError. argparse then prints the error's text and nothing
    else."""

    def parse_argument(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return parse_argument


def loaded_type(name: str) -> Callable[[str], Any]:
    """Make an argparse type from the function `module:name`, which is imported when the argument is given."""

    @argument_type
    def parse(text: str) -> Any:
        return load(name)(text)

    return parse


def whole_number(minimum: int, maximum: int | None = None, *, what: str = "number") -> Callable[[str], int]:
    """Make an argparse type for whole numbers from `minimum` to `maximum`, both inclusive."""
    limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"

    @argument_type
    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError(f"invalid {what}: {text!r}; give a whole number {limits}")
        return number

    return parse


def seed_range(*, alone_is_count: bool) -> Callable[[str], range]:
    """Make an argparse type for `FIRST-LAST`, both inclusive. A number alone is a count of seeds from 1 on, or a single
    seed."""

    @argument_type
    def parse(text: str) -> range:
        first, dash, last = text.partition("-")
        numbers = [first, last] if dash else ["1" if alone_is_count else first, first]
        if not all(each.isascii() and each.isdigit() for each in numbers) or int(numbers[0]) > int(numbers[1]):
            raise ValueError(f"invalid seeds: {text!r}; give a number, as in 1000, or a range, as in 501-1000")
        return range(int(numbers[0]), int(numbers[1]) + 1)

    return parse


@argument_type
def setting(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE` to name and value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"invalid setting: {text!r}; write NAME=VALUE, for example group.max.size=5")
    return name.strip(), value.strip()


port: Final = whole_number(0, MAX_PORT, what="port")
duration_ms: Final = argument_type(parse_duration_ms)
host: Final = loaded_type("regroup.notation.addresses:parse_host")
host_and_port: Final = loaded_type("regroup.notation.addresses:parse_host_port")
mqtt_address: Final = loaded_type("regroup.mqtt.address:parse_mqtt_address")


def add_mqtt_settings_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--mqtt-settings",
        metavar="FILE",
        type=Path,
        help="a TOML file with username, password, ca_file, cert_file, key_file; REGROUP_MQTT_USERNAME, "
        "REGROUP_MQTT_PASSWORD, … in the environment come first",
    )


@argument_type
def new_file(text: str) -> Path:
    """Check that an output file can be written, before the long job that fills it, and return its path."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write to {text!r}: it is a folder, or lies in none")
    return path


@argument_type
def store_file(text: str) -> Path:
    """The path of a store. SQLite reads files on disks only, so an address such as `s3a://bucket/a.db` is refused."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise ValueError(f"{text} is not on a disk, and SQLite reads files on disks only; name a path")
    return Path(text)
