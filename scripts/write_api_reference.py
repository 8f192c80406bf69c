"""Write docs/api.md, the reference of the public modules, from their docstrings: `make docs`.

A module is public if it has an `__all__` and stands in `SECTIONS`; tests/test_api_reference.py compares the two, and
docs/api.md with what this script writes. Nothing is imported, so Spark need not be installed.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "api.md"

Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MESSAGES: Final = (
    "group",
    "offsets",
    "describe",
    "consumer_group",
    "cluster",
    "topics",
    "records",
    "transactions",
    "sasl",
)
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Brokers in your tests": ("testing",),
    "Brokers in your process": ("server.broker_cluster", "server.settings", "server.releases", "server.clock"),
    "The lab": (
        "lab.simulation.run",
        "lab.checker.verdict",
        "lab.checker.metrics",
        "lab.plan.yaml_format",
        "lab.plan.scenario_files",
        "lab.plan.plan",
        "lab.search.swarm",
        "lab.search.plan_text",
    ),
    "Stores and their events": (
        "storage.sqlite.threaded",
        "storage.memory",
        "storage.store",
        "storage.records",
        "storage.journal",
        "storage.errors",
        "coordinator.serialization",
        "coordinator.events",
        "coordinator.consumer.events",
        "coordinator.consumer.migration.events",
    ),
    "The group coordinator": (
        "coordinator.runtime.group_coordinator",
        "coordinator.runtime.async_requests",
        "coordinator.settings",
        "coordinator.commands",
        "coordinator.consumer.commands",
        "coordinator.decide",
        "coordinator.decision",
        "coordinator.evolve",
        "coordinator.group",
        "coordinator.supported_protocol",
        "coordinator.consumer_group",
    ),
    "Members": (
        "members.runtime.member",
        "members.runtime.workload",
        "members.transports.tcp",
        "members.faults",
        "members.partitioners",
        "members.consumer.settings",
        "members.consumer.machine",
        "members.consumer.inputs",
        "members.consumer.effects",
    ),
    "Assignors": ("assignors.registry", "assignors.interface", "protocol.consumer.subscription"),
    "Kafka's protocol": (
        "protocol.frames",
        "protocol.header",
        "protocol.codec.codec",
        "protocol.apis",
        "protocol.errors",
        "protocol.exceptions",
        *(f"protocol.messages.{subject}" for subject in MESSAGES),
    ),
    "Spark": ("pipeline.spark.session", "pipeline.source.data_source", "pipeline.gold.versions"),
}
"""The public modules below `regroup`, in the order in which the page shows them."""

INTRODUCTION: Final = """\
# API reference

Written by `make docs` from the docstrings; do not edit it by hand.

**What is promised.** The modules on this page are public, with the names that it lists: those in their `__all__`. Names
are not removed or renamed, and arguments keep their meaning, unless [CHANGELOG.md](../CHANGELOG.md) says so; until
version 1.0 that may happen with each minor version (0.2, 0.3), never with a patch (0.2.1). The same holds for the
commands, options and exit codes of `regroup`, the line `listening on HOST:PORT`, JSON output, the format of stores,
[the topics and payloads of MQTT](mqtt.md), [the tables](tables.md) and the sentences of [scenarios](chaos.md). Every
other module, and every other name in these modules, may change at any time.

All packages have types (`py.typed`). Times are milliseconds, since 1970 where it is a point in time, and the names of
fields end with their unit. Structures are immutable; `msgspec.structs.replace`, or `dataclasses.replace` for a
dataclass, makes a changed copy. In the fields of messages `Text` is a `str`, `Bytes` and `Records` are `bytes`, `Uuid`
is sixteen bytes, and `Int8` to `Int64` are an `int`.
"""
SHOWN_BASES: Final = frozenset({"BlockingBrokers"})
"""Classes that are not public themselves, and whose methods are promised with a public class that has them."""
MAX_VALUES: Final = 40
"""An enumeration with more values than this shows the first ones."""


@cache
def tree_of(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(source.read_text(encoding="utf-8"))


def public_names_of(module: str) -> list[str]:
    """The names in a module's `__all__`, in its order; empty if there is none."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def definitions(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Definition, str]]:
    """Each name that a module or class defines itself, with its node and its docstring (empty if it has none)."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            yield ast.unparse(target), node, str(text)


def find_definition(module: str, name: str) -> tuple[Definition, str]:
    """A public name's node and docstring, in its module or where that imports it from."""
    for defined, node, text in definitions(tree_of(module)):
        if defined == name:
            return node, text
    if name in (origins := origins_of(module)):
        return find_definition(origins[name], name)
    raise LookupError(f"{module} has no {name}")


def origins_of(module: str) -> dict[str, str]:
    """For each name that a module imports from this project, the module from which it does."""
    return {
        alias.name: statement.module.removeprefix("regroup.")
        for statement in tree_of(module).body
        if isinstance(statement, ast.ImportFrom) and statement.module and statement.module.startswith("regroup.")
        for alias in statement.names
    }


def module_of(module: str, name: str) -> str:
    """The module that defines a name which this module defines or imports."""
    origins = origins_of(module)
    return module_of(origins[name], name) if name in origins else module


def inherited_methods(module: str, node: ast.ClassDef) -> Iterator[tuple[str, Definition, str]]:
    """The methods that a public class has from its bases among `SHOWN_BASES`."""
    origins = origins_of(module_of(module, node.name))
    for base in map(ast.unparse, node.bases):
        if base in SHOWN_BASES:
            defined, _ = find_definition(origins[base], base)
            assert isinstance(defined, ast.ClassDef)
            yield from (each for each in definitions(defined) if isinstance(each[1], Function))


def prose(docstring: str) -> str:
    """The paragraphs of a docstring that are sentences, as one line; examples and tables are left out."""
    paragraphs = [paragraph for paragraph in docstring.split("\n\n") if not paragraph.startswith("    ")]
    return " ".join(" ".join(each.split()) for each in paragraphs if each.rstrip().endswith((".", "`.")))


def has_factory(node: ast.ClassDef) -> bool:
    """Whether a class is made with a method of its own in place of its constructor."""
    methods = [each for each in node.body if isinstance(each, Function)]
    made = [each for each in methods if each.returns and ast.unparse(each.returns) == "Self"]
    return any(ast.unparse(decorator) == "classmethod" for each in made for decorator in each.decorator_list)


def is_public(name: str) -> bool:
    return not name.startswith("_")


def hint(annotation: ast.expr) -> str:
    """A type as a reader needs it: without the marks inside `Annotated`."""

    class WithoutMarks(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            self.generic_visit(node)
            if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
                return node.slice.elts[0]
            return node

    return ast.unparse(WithoutMarks().visit(ast.parse(ast.unparse(annotation), mode="eval"))).replace("'", "")


def field(node: ast.AnnAssign) -> str:
    """A field with its type, and with its default unless a function makes that."""
    text = f"{ast.unparse(node.target)}: {hint(node.annotation)}"
    return text if node.value is None or isinstance(node.value, ast.Call) else f"{text} = {ast.unparse(node.value)}"


def signature(name: str, node: Function, *, is_method: bool = False) -> str:
    """A function as a reader calls it, with types; a property is shown as a field."""
    decorators = [ast.unparse(each) for each in node.decorator_list]
    returns = hint(node.returns) if node.returns else ""
    if "property" in decorators:
        return f"{name}: {returns}"
    shown = list(arguments(node.args))
    if is_method and "staticmethod" not in decorators:
        del shown[0]
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{name}({', '.join(shown)})" + (f" -> {returns}" if returns else "")


def arguments(given: ast.arguments) -> Iterator[str]:
    """The arguments of a function, each with its type and default."""
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
    yield from map(argument, positional, defaults)
    if given.vararg:
        yield f"*{argument(given.vararg)}"
    elif given.kwonlyargs:
        yield "*"
    yield from map(argument, given.kwonlyargs, given.kw_defaults)
    if given.kwarg:
        yield f"**{argument(given.kwarg)}"


def argument(given: ast.arg, default: ast.expr | None = None) -> str:
    text = given.arg + (f": {hint(given.annotation)}" if given.annotation else "")
    return text + (f" = {ast.unparse(default)}" if default else "")


class Reference:
    """The page: `text()`. It knows all public classes, so that a method is shown where it is described."""

    def __init__(self) -> None:
        self.methods: dict[str, set[str]] = {}
        """The methods of each public class."""
        for modules in SECTIONS.values():
            for module in modules:
                for name in public_names_of(module):
                    node, _ = find_definition(module, name)
                    if isinstance(node, ast.ClassDef):
                        self.methods[name] = {each for each, _, _ in definitions(node)}

    def text(self) -> str:
        lines = [INTRODUCTION]
        for title, modules in SECTIONS.items():
            lines += [f"## {title}", ""]
            for module in modules:
                lines += [*self.module(module), ""]
        return "\n".join(lines).rstrip() + "\n"

    def module(self, module: str) -> Iterator[str]:
        docstring = ast.get_docstring(tree_of(module)) or ""
        yield from (f"### `regroup.{module}`", "", " ".join(docstring.split("\n\n")[0].split()), "")
        for name in public_names_of(module):
            node, text = find_definition(module, name)
            yield from self.definition(module, name, node, text)

    def definition(self, module: str, name: str, node: Definition, text: str) -> Iterator[str]:
        match node:
            case ast.ClassDef():
                yield bullet(0, self.head(name, node), prose(text))
                yield from self.class_body(node, list(inherited_methods(module, node)))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield bullet(0, signature(name, node), prose(text))
            case _:
                value = ast.unparse(node.value) if node.value else ""
                yield bullet(0, f"{name} = {value}" if len(value) <= 100 else name, prose(text))

    def head(self, name: str, node: ast.ClassDef) -> str:
        """The class with its bases, and for a message with its API key and versions."""
        bases = [ast.unparse(base) for base in node.bases]
        keywords = {each.arg: ast.unparse(each.value) for each in node.keywords}
        wire = [f"{key}={keywords[key]}" for key in ("api_key", "versions", "flexible") if key in keywords]
        inner = ", ".join([base for base in bases if base.split(".")[-1] not in ("Struct", "ABC")] + wire)
        return f"class {name}({inner})" if inner else f"class {name}"

    def class_body(self, node: ast.ClassDef, others: list[tuple[str, Definition, str]]) -> Iterator[str]:
        """The fields and methods of a class; `others` are methods of its bases that are shown with it."""
        inherited = {name for base in node.bases for name in self.methods.get(ast.unparse(base).split("[")[0], ())}
        members = [each for each in definitions(node) if is_public(each[0]) and (each[2] or each[0] not in inherited)]
        if any(ast.unparse(base).endswith("Enum") for base in node.bases):
            values = [f"`{name}`" for name, each, _ in members if isinstance(each, ast.Assign)]
            rest = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
            yield f"  - Values: {', '.join(values[:MAX_VALUES])}{rest}"
        fields = [(field(each), text) for _, each, text in members if isinstance(each, ast.AnnAssign)]
        if plain := [f"`{shown}`" for shown, text in fields if not text]:
            yield f"  - Fields: {', '.join(plain)}"
        yield from (bullet(1, shown, prose(text)) for shown, text in fields if text)
        for name, each, _ in definitions(node):
            if name == "__init__" and isinstance(each, ast.FunctionDef) and not has_factory(node):
                call = signature(node.name, each, is_method=True).removesuffix(" -> None")
                yield from () if call.endswith("()") else [bullet(1, call, "")]
        for name, each, text in (*(other for other in others if is_public(other[0]) and other[2]), *members):
            if isinstance(each, Function):
                yield bullet(1, signature(name, each, is_method=True), prose(text))


def bullet(level: int, code: str, text: str) -> str:
    return f"{'  ' * level}- `{code}`" + (f": {text}" if text else "")


if __name__ == "__main__":
    PAGE.write_text(Reference().text(), encoding="utf-8")
