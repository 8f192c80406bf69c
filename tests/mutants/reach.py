"""The lines of the coordinator and of the members that each seed of the lab executes, without any mutation.

`python -m tests.mutants.reach FILE FIRST COUNT` plays the seeds, each in a process of its own so that no cache hides a
line, and writes them as JSON. A seed that does not execute the line of a mutant plays as without it, and need not be
played again.
"""

import json
import multiprocessing
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from subprocess import run
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from tests.mutants.project_copy import ROOT, ProjectCopy
from tests.mutants.sites import ROOMS, Mutation

Lines: TypeAlias = dict[str, set[int]]
"""The lines that were executed, by the path of the file below the project's folder."""


TRACED_SEED_CPU_S: Final = 400
"""CPU time that one seed may take while its lines are recorded."""


class LineRecorder:
    """Records every line of some folders that this process executes, in all of its threads."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = tuple(f"{each.resolve()}/" for each in folders)
        self.executed: defaultdict[CodeType, set[int]] = defaultdict(set)
        self.unexecuted: dict[CodeType, set[int]] = {}

    def start(self) -> None:
        """Record from now on."""
        threading.settrace(self._trace_call)
        sys.settrace(self._trace_call)

    def lines(self) -> Lines:
        """The lines executed since the start."""
        lines: Lines = {}
        for code, numbers in self.executed.items():
            lines.setdefault(str(Path(code.co_filename).resolve()), set()).update(numbers)
        return lines

    def _trace_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        unexecuted = self.unexecuted.get(code)
        if unexecuted is None:
            is_looked_at = str(Path(code.co_filename).resolve()).startswith(self.folders)
            unexecuted = {line for *_, line in code.co_lines() if line} if is_looked_at else set()
            self.unexecuted[code] = unexecuted
        if not unexecuted:
            return None

        def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self.executed[code].add(frame.f_lineno)
                unexecuted.discard(frame.f_lineno)
            return trace_line

        self.executed[code].add(frame.f_lineno)
        return trace_line


class Reach:
    """Which seeds execute a line."""

    def __init__(self, at_import: Lines, of_seeds: dict[int, Lines]) -> None:
        self.at_import = at_import
        self.of_seeds = of_seeds

    def seeds_that_execute(self, mutation: Mutation) -> list[int]:
        """The seeds that execute the statement of a mutation; all of them if it is executed by the import."""
        span = set(range(mutation.line, mutation.last_line + 1))
        if span & self.at_import.get(mutation.path, set()):
            return list(self.of_seeds)
        return [seed for seed, lines in self.of_seeds.items() if span & lines.get(mutation.path, set())]


def read_reach(file: Path, first: int, count: int) -> Reach:
    """Read the lines of these seeds from a file; write the file first unless it belongs to the sources of today."""
    if not file.exists() or json.loads(file.read_bytes())["sources"] != _hash_of_sources():
        print(f"playing {count} seeds, to see which lines each of them executes", flush=True)
        run([sys.executable, "-m", "tests.mutants.reach", str(file), str(first), str(count)], cwd=ROOT, check=True)
    written = json.loads(file.read_bytes())
    return Reach(_as_sets(written["import"]), {int(seed): _as_sets(lines) for seed, lines in written["seeds"].items()})


def _as_sets(lines: dict[str, list[int]]) -> Lines:
    return {path: set(numbers) for path, numbers in lines.items()}


def _hash_of_sources() -> str:
    """A hash of all code that decides how a seed is played."""
    digest = sha256()
    for path in ProjectCopy.list_files():
        if path.suffix == ".py" and path.parts[0] != "tests":
            digest.update(str(path).encode() + (ROOT / path).read_bytes())
    return digest.hexdigest()


def _relative(lines: Lines) -> dict[str, list[int]]:
    return {str(Path(path).relative_to(ROOT)): sorted(numbers) for path, numbers in sorted(lines.items())}


def _record_seed(seed: int) -> tuple[int, dict[str, list[int]]]:
    from tests.mutants.play_seeds import play  # noqa: PLC0415 - imported before, while a recorder was on

    recorder = LineRecorder(ROOT / room for room in ROOMS)
    recorder.start()
    failure = play([seed], TRACED_SEED_CPU_S)
    sys.settrace(None)
    if failure:
        raise RuntimeError(f"without any mutation: {failure}")
    return seed, _relative(recorder.lines())


def main(file: Path, first: int, count: int) -> None:
    """Import the lab and play the seeds, and write what each of them executes."""
    recorder = LineRecorder(ROOT / room for room in ROOMS)
    recorder.start()
    import tests.mutants.play_seeds  # noqa: F401, PLC0415 - its imports are recorded

    sys.settrace(None)
    at_import = _relative(recorder.lines())
    with multiprocessing.get_context("fork").Pool(maxtasksperchild=1) as pool:
        seeds = dict(pool.imap(_record_seed, range(first, first + count), chunksize=1))
    file.write_text(json.dumps({"sources": _hash_of_sources(), "import": at_import, "seeds": seeds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
