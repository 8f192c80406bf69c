"""`regroup chaos words` has every invariant that the code of a run can report.

What can be reported is found in the code: the functions in tuples and dictionaries whose names end with INVARIANTS, the
functions that are given to `check` or `invariant_sentence`, and constants that are sentences.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

import regroup.lab.checker
import regroup.lab.simulation
from regroup.cli.chaos.words import invariant_tables
from regroup.coordinator import invariants, verification
from regroup.coordinator.consumer import invariants as consumer_invariants
from regroup.coordinator.invariants import invariant_sentence


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    """The modules whose sentences a run can report."""
    packages = (regroup.lab.checker, regroup.lab.simulation)
    found = [each for package in packages for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    names = [each.name for each in found if not each.name.endswith("invariant_list")]
    return [*map(importlib.import_module, names), invariants, consumer_invariants, verification]


@pytest.fixture(scope="module")
def listed() -> set[str]:
    return {row.words for table in invariant_tables() for row in table.rows}


def test_each_function_that_is_checked_is_in_the_list(modules: list[ModuleType], listed: set[str]) -> None:
    found = {each: None for module in modules for each in (*collected(module), *checked(module))}
    assert {invariants.a_transition_is_legal, verification.a_coordinator_epoch_begins_with_a_load} <= found.keys()
    assert len(found) > 80
    assert [each for each in map(invariant_sentence, found) if each not in listed] == []


def test_each_constant_that_is_a_sentence_is_in_the_list(modules: list[ModuleType], listed: set[str]) -> None:
    found = {each for module in modules for each in sentences(module)}
    assert len(found) > 60
    assert found - listed == set()


def collected(module: ModuleType) -> Iterator[Callable[..., object]]:
    """The functions in the module's tuples and dictionaries of invariants."""
    for name, value in vars(module).items():
        if "INVARIANTS" in name:
            yield from functions_in(value)


def functions_in(value: object) -> Iterator[Callable[..., object]]:
    if inspect.isfunction(value):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from functions_in(each)
    elif isinstance(value, dict):
        for each in (*value, *value.values()):
            yield from functions_in(each)


def checked(module: ModuleType) -> Iterator[Callable[..., object]]:
    """The functions of modules that the module gives to `check` or `invariant_sentence`, or that it names
    `invariant`."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        named = None
        if isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            named = node.args[0] if called in ("check", "invariant_sentence") else None
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "invariant":
            named = node.value
        value = value_of(named, module)
        if inspect.isfunction(value):
            yield value


def value_of(node: ast.AST | None, module: ModuleType) -> object:
    """What a name, or an attribute of a module, stands for in the module; None for everything else."""
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(getattr(module, node.value.id, None), node.attr, None)
    return None


def sentences(module: ModuleType) -> Iterator[str]:
    """The constants of the module that are sentences."""
    for name, value in vars(module).items():
        if name.isupper() and isinstance(value, str) and value[0].isupper() and value.endswith("."):
            yield value
