"""Runs a learner's assignor: a program of its own, which needs nothing but Python.

    python student_runner.py FILE CASES RESULT_FD MEMORY_BYTES CPU_SECONDS

`CASES` is a JSON file with a list of [partitions, members]. The result goes to the open file RESULT_FD as JSON:
`{"returned": [...]}`, or `{"failure": "raised", "detail": "..."}`.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

try:
    import resource
except ImportError:  # on Windows there are no such limits
    resource = None  # type: ignore[assignment]

REFUSED = {
    "os.fork": "start a process",
    "os.forkpty": "start a process",
    "os.system": "start a process",
    "os.exec": "start a process",
    "os.posix_spawn": "start a process",
    "os.spawn": "start a process",
    "os.startfile": "start a process",
    "subprocess.Popen": "start a process",
    "pty.spawn": "start a process",
    "socket.__new__": "use the network",
    "socket.connect": "use the network",
    "socket.getaddrinfo": "use the network",
    "os.kill": "end a process",
    "os.killpg": "end a process",
    "ctypes.dlopen": "load a library",
    "os.remove": "delete a file",
    "os.rmdir": "delete a folder",
    "os.rename": "rename a file",
    "shutil.rmtree": "delete a folder",
}
MAX_DETAIL = 4_000


class Refused(Exception):
    """Raised in a learner's code if it does what an assignor of a lesson may not do, such as opening a socket."""


refused: list[str] = []


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of Python: raises Refused for actions such as writing a file or starting a process."""
    what = REFUSED.get(event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        what = "write a file"
    if what is not None:
        refused.append(what)
        raise Refused(what)


def limit(memory_bytes: int, cpu_s: int) -> None:
    """Limit the memory and processor time of this process, as far as the operating system supports that."""
    if resource is None:
        return
    limits = [("RLIMIT_AS", memory_bytes), ("RLIMIT_CPU", cpu_s), ("RLIMIT_CORE", 0)]
    for name, value in limits:
        number = getattr(resource, name, None)
        if number is not None:
            try:
                resource.setrlimit(number, (value, value))
            except (ValueError, OSError):
                continue


def short_traceback(error: BaseException, file: str) -> str:
    """The error with the part of its traceback that is in the learner's file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file]
    lines = traceback.format_list(own) + traceback.format_exception_only(type(error), error)
    return "".join(lines).replace(file, os.path.basename(file)).rstrip()[-MAX_DETAIL:]


def failure(kind: str, detail: str = "") -> dict[str, str]:
    """A result for the parent process that says what went wrong: its kind, and a detail such as a traceback."""
    return {"failure": kind, "detail": detail}


def run_cases(file: str, source: bytes, cases: list[Any], memory_bytes: int) -> dict[str, Any]:
    """Load the learner's file, call its function `assign` for each case, and return the results or the failure."""
    scope: dict[str, Any] = {"__name__": "assignor", "__file__": file}
    stage = "cannot be loaded"
    try:
        exec(compile(source, file, "exec"), scope)
        function: Callable[..., Any] | None = scope.get("assign")
        if not callable(function):
            return failure("no function")
        stage = "raised"
        returned = [as_json(function(partitions, members)) for partitions, members in cases]
        return {"returned": returned} if not refused else failure("refused", refused[0])
    except Nonsense as error:
        return failure("nonsense", str(error))
    except MemoryError:
        return failure("too much memory", f"{memory_bytes // 1024 // 1024} MB")
    except BaseException as error:  # noqa: BLE001 - also SystemExit, which a learner's code may raise
        if refused:
            return failure("refused", refused[0])
        return failure(stage, short_traceback(error, file))


class Nonsense(Exception):
    """Raised for a value that the learner's function returned and that is no assignment."""


def as_json(returned: Any) -> Any:
    """The assignment that the learner's function returned, as lists that JSON can hold. Raises Nonsense."""
    if not isinstance(returned, dict):
        raise Nonsense(short(returned))
    found = {}
    for name, partitions in returned.items():
        if not isinstance(partitions, list | tuple | set):
            raise Nonsense(f"{short(partitions)} for {short(name)}")
        pairs = sorted(partitions) if isinstance(partitions, set) else partitions
        for each in pairs:
            if not (isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str)
                    and type(each[1]) is int):  # fmt: skip
                raise Nonsense(f"{short(each)} as a partition of {short(name)}")
        found[str(name)] = [list(each) for each in pairs]
    return found


def short(value: Any) -> str:
    """The `repr` of a value, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def main() -> None:
    file, cases_file, result_fd, memory_bytes, cpu_s = sys.argv[1:]
    with open(cases_file, encoding="utf-8") as opened:
        cases = json.load(opened)
    with open(file, "rb") as opened:
        source = opened.read()
    results = os.fdopen(int(result_fd), "wb")
    limit(int(memory_bytes), int(cpu_s))
    sys.addaudithook(refuse)
    result = run_cases(file, source, cases, int(memory_bytes))
    sys.stdout.flush()
    results.write(json.dumps(result).encode())
    results.flush()
    os._exit(0)  # threads of the learner's code do not keep the process alive


if __name__ == "__main__":
    main()
