"""Every public name of the kit has a docstring, every method of its main classes an example, and the examples run."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from regroup import testing
from regroup.testing import (
    AsyncEmulator,
    AsyncFault,
    AsyncGroup,
    BlockingConnection,
    Emulator,
    ErrorCode,
    FaultHandle,
    GroupHandle,
)
from regroup.testing.blocking_brokers import BlockingBrokers
from tests.testing.conftest import commit, stable_pair

MODULES = [importlib.import_module(each.name) for each in pkgutil.walk_packages(testing.__path__, "regroup.testing.")]
EXAMPLES = [
    example
    for module in MODULES
    for example in doctest.DocTestFinder(exclude_empty=True).find(module)
    if example.examples and (module.__name__ == example.name or example.name.startswith(f"{module.__name__}."))
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name.removeprefix("regroup.testing."))
def test_the_example_does_what_it_says(example: doctest.DocTest, tmp_path: Path) -> None:
    with Emulator(topics={"orders": 2}, brokers=2) as kafka:
        first, _ = stable_pair(kafka)
        kafka.produce("orders", "one pear")
        commit(first, {0: 1})
        example.globs.update(kafka=kafka, Emulator=Emulator, ErrorCode=ErrorCode, folder=tmp_path)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        text: list[str] = []
        runner.run(example, out=text.append, clear_globs=False)
    assert not runner.failures, "".join(text)


@pytest.mark.parametrize("described", [Emulator, BlockingBrokers, GroupHandle, FaultHandle, BlockingConnection])
def test_every_public_method_has_an_example(described: type) -> None:
    shown = {example.name.rpartition(f"{described.__name__}.")[2] for example in EXAMPLES}
    methods = {name for name, member in vars(described).items() if not name.startswith("_") and is_method(member)}
    assert methods - shown == set()


def is_method(member: object) -> bool:
    return inspect.isfunction(member) or isinstance(member, property)


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [(Emulator, AsyncEmulator), (BlockingBrokers, AsyncEmulator), (GroupHandle, AsyncGroup), (FaultHandle, AsyncFault)],
)
def test_the_awaited_methods_have_the_names_and_arguments_of_the_blocking_ones(blocking: type, awaited: type) -> None:
    for name, method in vars(blocking).items():
        if not name.startswith("_") and inspect.isfunction(method):
            assert argument_names(getattr(awaited, name)) == argument_names(method), name


def argument_names(method) -> list[str]:
    return list(inspect.signature(method).parameters)


def test_the_public_names_have_docstrings() -> None:
    assert [name for name in testing.__all__ if not (getattr(testing, name).__doc__ or "").strip()] == []
