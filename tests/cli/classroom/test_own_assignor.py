"""A learner's assignor runs in a process of its own, and every way to go wrong has a clear message."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.cases import MadeUpCase, made_up_cases
from regroup.classroom.lessons.assignor.failures import AssignorFailure
from regroup.classroom.lessons.assignor.properties import check_properties
from regroup.classroom.lessons.assignor.task import run_assignor_task
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.library import lesson
from regroup.classroom.lessons.tasks import TaskResult
from regroup.cli.classroom.lesson.assignor_process import MAX_PRINTED_BYTES, AssignorProcess
from tests.cli.classroom.assignor_file import IN_TURN

CASE = MadeUpCase({"orders": 2}, {"anna": {"topics": ["orders"], "owned": []}})


def called(folder: Path, source: str, time_limit_s: float = 20.0) -> tuple[list[Any], str]:
    """What a file's function returns for one case, and what it printed."""
    file = folder / "assignor.py"
    file.write_text(source, encoding="utf-8")
    process = AssignorProcess(file, time_limit_s)
    return process([CASE]), process.printed


def failure(folder: Path, source: str, time_limit_s: float = 20.0) -> AssignorFailure:
    with pytest.raises(AssignorFailure) as caught:
        called(folder, source, time_limit_s)
    for language in Language:
        assert caught.value.text(language)
    return caught.value


def body(*lines: str) -> str:
    return "\n".join(["def assign(partitions, members):", *(f"    {line}" for line in lines)]) + "\n"


def test_a_result_and_what_was_printed_come_back(tmp_path: Path) -> None:
    returned, printed = called(tmp_path, body("print('héllo', members)", "return {'anna': {('orders', 1)}}"))
    assert returned == [{"anna": [["orders", 1]]}]
    assert printed.startswith("héllo {'anna'")


def test_one_process_computes_all_cases_and_they_have_the_properties(tmp_path: Path) -> None:
    file = tmp_path / "assignor.py"
    file.write_text(IN_TURN, encoding="utf-8")
    results = check_properties(AssignorProcess(file, 20.0), ["complete", "balanced"], Language.ENGLISH)
    assert all(result.holds for result in results)
    assert len(results) == 2
    (result,) = check_properties(AssignorProcess(file, 20.0), ["keeps"], Language.ENGLISH)
    assert not result.holds
    assert " got as many partitions as before, and yet lost " in result.because


@pytest.mark.quick("[an error]", "[a fork]", "[a list]", "[a large result]", "[an exit at once]")
@pytest.mark.parametrize(
    ("source", "kind", "detail"),
    [
        pytest.param("x = (", "cannot be loaded", "SyntaxError", id="no Python"),
        pytest.param("import no_such_module", "cannot be loaded", "No module named", id="unknown module"),
        pytest.param("x = 1", "no function", "", id="no function"),
        pytest.param("assign = 7", "no function", "", id="not a function"),
        pytest.param(body("return members['zoe']"), "raised", 'assignor.py", line 2', id="an error"),
        pytest.param(body("raise SystemExit(3)"), "raised", "SystemExit", id="an exit"),
        pytest.param(body("import os", "os._exit(3)"), "ended", "exit code 3", id="an exit at once"),
        pytest.param(body("import os", "os.abort()"), "ended", "SIGABRT", id="a signal"),
        pytest.param(body("return None"), "nonsense", "None", id="nothing"),
        pytest.param(body("return [1, 2]"), "nonsense", "[1, 2]", id="a list"),
        pytest.param(body("return {'anna': 'orders-0'}"), "nonsense", "for 'anna'", id="text"),
        pytest.param(
            body("return {'anna': [('orders', '0')]}"), "nonsense", "as a partition of 'anna'", id="a text number"
        ),
        pytest.param(body("return {'anna': [('orders', True)]}"), "nonsense", "True", id="a truth value"),
        pytest.param(
            body("return {'anna': [('orders', 0)] * 500_000}"), "result too large", "4 MB", id="a large result"
        ),
        pytest.param(body("x = 'x' * 3_000_000_000", "return {}"), "too much memory", "1024 MB", id="much memory"),
        pytest.param(body("import os", "os.fork()", "return {}"), "refused", "start a process", id="a fork"),
        pytest.param(
            body("import subprocess", "subprocess.run(['true'])"), "refused", "start a process", id="a program"
        ),
        pytest.param(body("import os", "os.system('true')", "return {}"), "refused", "start a process", id="a shell"),
        pytest.param(
            body("import os", "try:", "    os.fork()", "except BaseException:", "    pass", "return {'anna': []}"),
            "refused",
            "start a process",
            id="a fork whose refusal is caught",
        ),
        pytest.param(body("import socket", "socket.socket()"), "refused", "use the network", id="a socket"),
        pytest.param(body("open('notes.txt', 'w')", "return {}"), "refused", "write a file", id="a file"),
        pytest.param(body("import ctypes", "ctypes.CDLL(None)"), "refused", "load a library", id="a library"),
    ],
)
def test_what_goes_wrong_is_named(tmp_path: Path, source: str, kind: str, detail: str) -> None:
    found = failure(tmp_path, source)
    assert (found.kind, detail in found.detail) == (kind, True), found


@pytest.mark.quick("[a loop]")
@pytest.mark.parametrize(
    "source",
    [
        body("while True: pass"),
        body("import time", "time.sleep(3600)"),
        "while True: pass",
        body("while True:", "    try:", "        while True: pass", "    except BaseException:", "        pass"),
        body("import threading", "threading.Event().wait()"),
    ],
    ids=["a loop", "sleep", "a loop while it is loaded", "a loop that catches everything", "a wait"],
)
def test_an_assignor_that_does_not_return_is_ended(tmp_path: Path, source: str) -> None:
    began_s = time.monotonic()
    assert failure(tmp_path, source, time_limit_s=0.4).kind == "too long"
    assert time.monotonic() - began_s < 10


def test_megabytes_of_output_are_cut_off(tmp_path: Path) -> None:
    source = body("while True: print('x' * 1_000_000)")
    file = tmp_path / "assignor.py"
    file.write_text(source, encoding="utf-8")
    process = AssignorProcess(file, 20.0)
    with pytest.raises(AssignorFailure) as caught:
        process([CASE])
    assert caught.value.kind == "too much output"
    assert len(process.printed) <= MAX_PRINTED_BYTES


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    """A thread that goes on, and a process that ends at once."""
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    reader = os.open(pids, os.O_RDONLY | os.O_NONBLOCK)
    try:
        source = body(
            "import os, threading, time",
            f"fifo = os.open({str(pids)!r}, os.O_WRONLY)",
            "os.write(fifo, str(os.getpid()).encode())",
            "threading.Thread(target=time.sleep, args=(3600,)).start()",
            "return {'anna': []}",
        )
        returned, _ = called(tmp_path, source)
        assert returned == [{"anna": []}]
        pid = int(os.read(reader, 100))
    finally:
        os.close(reader)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_environment_of_the_terminal_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", "secret")
    _, printed = called(tmp_path, body("import os", "print(sorted(os.environ))", "return {'anna': []}"))
    assert "A_PASSWORD" not in printed


def solved(folder: Path, source: str) -> TaskResult:
    """The result of the lesson's task with this file."""
    file = folder / "assignor.py"
    file.write_text(source, encoding="utf-8")
    return run_assignor_task(lesson("your-own-assignor"), AssignorProcess(file, 20.0), Language.ENGLISH)


def test_a_right_assignor_leads_a_live_group(tmp_path: Path) -> None:
    result = solved(tmp_path, IN_TURN)
    assert result.is_solved
    assert result.run is not None
    assert result.run.timeline.generations[-1].protocol_name == "mine"
    assert result.done


def test_properties_are_checked_before_a_group_is_started(tmp_path: Path) -> None:
    result = solved(tmp_path, body("return {name: [] for name in members}"))
    assert not result.is_solved
    assert result.run is None
    (found,) = result.results
    assert found.because.startswith("no member got these partitions: orders-0, orders-1, ")
    assert "topics: orders with 7; members: anna (orders)" in found.because


def test_an_error_in_the_live_group_alone_is_named(tmp_path: Path) -> None:
    source = IN_TURN.replace("    result =", "    if any('-' in name for name in members): members['x']\n    result =")
    result = solved(tmp_path, source)
    assert not result.is_solved
    assert "KeyError: 'x'" in result.problem


def test_an_impossible_assignment_in_the_live_group_alone_is_named(tmp_path: Path) -> None:
    live = (
        "    if any('-' in name for name in members): return {name: [('orders', 0)] for name in members}\n    result ="
    )
    result = solved(tmp_path, IN_TURN.replace("    result =", live))
    assert not result.is_solved
    assert result.problem.startswith("in the live group: assignor mine assigned member ")


def test_a_partition_with_two_owners_is_named(tmp_path: Path) -> None:
    result = solved(tmp_path, body("return {name: [('orders', 0)] for name in members}"))
    assert "which member anna has already" in result.results[0].because


def test_the_lesson_names_the_number_of_cases() -> None:
    ask = lesson("your-own-assignor").parts.task.ask
    for language in Language:
        assert f" {len(list(made_up_cases()))} " in in_language(ask, language).replace("\n", " ")


def test_made_up_cases_are_the_same_each_time_and_hold_what_members_had() -> None:
    cases = list(made_up_cases())
    assert cases == list(made_up_cases())
    assert any(member["owned"] for case in cases for member in case.members.values())
    for case in cases:
        owned = [tuple(each) for member in case.members.values() for each in member["owned"]]
        assert len(owned) == len(set(owned))
        assert str(case)
