"""The places of a Python file that can be mutated, found on its syntax tree.

    for mutation in mutations_of(Path("coordinator/decide.py"), source):
        mutated = mutation.apply(source)

A mutation replaces the text of one node, so that all other lines stay as they are. There are five kinds of them.
Annotations, decorators, strings, `__repr__`, `__str__` and what is logged are not mutated.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["operator", "condition", "constant", "removed statement", "swapped arguments"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
ROOMS: Final = ("coordinator", "members")
"""The folders whose files are mutated."""

_OPERATORS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_LOG_NAMES: Final = {"log", "_log", "logger", "_logger", "logging", "structlog", "warnings"}
_TEXT_FUNCTIONS: Final = {"__repr__", "__str__"}


@dataclass(frozen=True)
class Mutation:
    """One change of one file: the bytes from `start` to `end` are replaced by `after`."""

    path: str
    kind: Kind
    function: str
    """The qualified name of the function or class that it stands in; empty in the body of the module."""
    line: int
    last_line: int
    """The lines from `line` to `last_line` are those of its statement, or of the head of a compound statement."""
    start: int
    end: int
    before: str
    after: str
    ordinal: int = 0
    """Its place among the mutations of the function that change the same text in the same way."""

    @property
    def key(self) -> str:
        """What names the mutation between runs. Changes in other places of the file leave it as it is."""
        text = f"{self.path}:{self.function}:{self.kind}:{self.before}:{self.after}:{self.ordinal}"
        return sha256(text.encode()).hexdigest()[:12]

    def apply(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutations_of(path: Path, source: bytes) -> list[Mutation]:
    """All mutations of a file that can be compiled, in the order of their places."""
    finder = _Finder(path.as_posix(), source)
    finder.visit(ast.parse(source))
    unique = {(each.start, each.end, each.after): each for each in finder.found if each.before != each.after}
    alike: Counter[str] = Counter()
    numbered = []
    for _, each in sorted(unique.items()):
        numbered.append(replace(each, ordinal=alike[each.key]))
        alike[each.key] += 1
    return [each for each in numbered if _compiles(each.apply(source))]


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """Collects the mutations of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.line_starts = [0]
        for line in source.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.found: list[Mutation] = []
        self.names: list[str] = []
        self.lines = (1, 1)

    def _add(self, kind: Kind, node: ast.expr | ast.stmt, after: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.line_starts[node.lineno - 1] + node.col_offset
        end = self.line_starts[node.end_lineno - 1] + node.end_col_offset
        before = self.source[start:end].decode()
        function = ".".join(self.names)
        self.found.append(Mutation(self.path, kind, function, *self.lines, start, end, before, after))

    def _replace(self, kind: Kind, node: ast.expr, mutated: ast.expr) -> None:
        self._add(kind, node, f"({ast.unparse(mutated)})")

    # What is not mutated.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip an f-string."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit the defaults and the body of a function, and neither its annotations nor its decorators."""
        if node.name in _TEXT_FUNCTIONS:
            return
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each)):
            self.visit(default)
        self._visit_body(node.body, node.name)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast.NodeVisitor looks for

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit the body of a class, and not its bases and keywords."""
        self._visit_body(node.body, node.name)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit the value of an annotated assignment, and not a type that it names."""
        if node.value is not None and ast.unparse(node.annotation) != "TypeAlias":
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Visit a subscript; a type with parameters (`dict[str, int]`) has nothing that is mutated but `|`."""
        if not (isinstance(node.value, ast.Name) and node.value.id in {"dict", "list", "tuple", "set", "frozenset"}):
            self.generic_visit(node)

    # What is mutated.

    def visit_Compare(self, node: ast.Compare) -> None:
        """Exchange each comparison for its neighbour."""
        for index, operator in enumerate(node.ops):
            mutated = deepcopy(node)
            mutated.ops[index] = _OPERATORS[type(operator)]()  # type: ignore[call-overload]
            self._replace("operator", node, mutated)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Exchange an arithmetical operator for its neighbour."""
        if type(node.op) in _OPERATORS and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            mutated = deepcopy(node)
            mutated.op = _OPERATORS[type(node.op)]()  # type: ignore[assignment]
            self._replace("operator", node, mutated)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Exchange `and` for `or`, and leave out each operand."""
        mutated = deepcopy(node)
        mutated.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._replace("condition", node, mutated)
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            self._replace("condition", node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant) and ast.unparse(test) != "TYPE_CHECKING":
            self._replace("condition", test, ast.UnaryOp(ast.Not(), test))

    def visit_If(self, node: ast.If) -> None:
        """Negate the condition."""
        self._negate(node.test)
        self.visit(node.test)
        self._visit_body(node.body)
        self._visit_body(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """Negate the condition."""
        self.visit_If(node)  # type: ignore[arg-type]

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Negate the condition."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Negate each condition."""
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Exchange True and False, and add one to a number."""
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, repr(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        """Swap two arguments that stand beside each other."""
        if self._is_logged(node):
            return
        plain = [index for index, each in enumerate(node.args) if not isinstance(each, ast.Starred)]
        for first, second in pairwise(plain):
            if second == first + 1 and ast.dump(node.args[first]) != ast.dump(node.args[second]):
                mutated = deepcopy(node)
                mutated.args[first], mutated.args[second] = mutated.args[second], mutated.args[first]
                self._replace("swapped arguments", node, mutated)
        for position in range(len(node.keywords) - 1):
            left, right = node.keywords[position : position + 2]
            if left.arg and right.arg and ast.dump(left.value) != ast.dump(right.value):
                mutated = deepcopy(node)
                mutated.keywords[position].value = deepcopy(right.value)
                mutated.keywords[position + 1].value = deepcopy(left.value)
                self._replace("swapped arguments", node, mutated)
        self.generic_visit(node)

    @staticmethod
    def _is_logged(node: ast.Call) -> bool:
        function = node.func
        while isinstance(function, ast.Attribute | ast.Call):
            function = function.value if isinstance(function, ast.Attribute) else function.func
            if isinstance(function, ast.Name) and function.id in _LOG_NAMES:
                return True
        return isinstance(node.func, ast.Attribute) and any(
            isinstance(each, ast.Attribute) and each.attr in _LOG_NAMES for each in ast.walk(node.func)
        )

    def _visit_body(self, body: list[ast.stmt], name: str = "") -> None:
        """Visit the statements of a block, and remove each that the rest can be compiled without.

        `name` is that of the function or class if the block is its body.
        """
        outer_lines = self.lines
        self.names += [name] if name else []
        for statement in body:
            self.lines = _lines_of(statement)
            if _can_be_removed(statement) and not (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Call)
                and self._is_logged(statement.value)
            ):
                self._add("removed statement", statement, "pass")
            self.visit(statement)
        self.lines = outer_lines
        if name:
            self.names.pop()

    def generic_visit(self, node: ast.AST) -> None:
        """Visit the children, blocks of statements as blocks."""
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                if value and all(isinstance(each, ast.stmt) for each in value):
                    self._visit_body(value)
                    continue
                for each in value:
                    if isinstance(each, ast.AST):
                        self.visit(each)
            elif isinstance(value, ast.AST):
                self.visit(value)


def _lines_of(statement: ast.stmt) -> tuple[int, int]:
    """The first and the last line of a statement; of its head alone, if blocks of other statements follow."""
    assert statement.end_lineno is not None
    blocks = [each for each in ast.walk(statement) if isinstance(each, ast.stmt) and each is not statement]
    last = min((each.lineno for each in blocks), default=statement.end_lineno + 1) - 1
    return statement.lineno, max(statement.lineno, last)


def _can_be_removed(statement: ast.stmt) -> bool:
    """Whether a statement is removed: its effect is the call, the stored value, or that the function ends here.

    Assignments to a local name stay, since without them most functions fail at once. So does the definition of a type.
    """
    match statement:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)
        case _:
            return False


def all_mutations(root: Path) -> Iterator[Mutation]:
    """The mutations of every file of the rooms, in the order of their paths."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            yield from mutations_of(path.relative_to(root), path.read_bytes())
