"""Results of commands in files, also if they cannot be written to the end."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regroup.cli.result_files import write_result


def test_a_result_replaces_the_former_one_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_result(path, "é one")
    path.chmod(0o640)
    write_result(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_former_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    write_result(path, "one")

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*result\.json'"):
        write_result(path, "two")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_a_file_and_a_device_remain_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "result.json")
    write_result(tmp_path / "link", "one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "result.json").read_text() == "one"
    write_result(Path("/dev/null"), "one")
    assert Path("/dev/null").is_char_device()


def test_a_result_is_written_to_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    (tmp_path / "link").symlink_to(f"/dev/fd/{writing}")
    write_result(Path(f"/dev/fd/{writing}"), "one")
    write_result(tmp_path / "link", " two")
    os.close(writing)
    with open(reading) as pipe:
        assert pipe.read() == "one two"


@pytest.mark.parametrize("name", ["/dev/stdout", "out.txt"])
def test_a_result_in_the_file_of_standard_output_stands_between_the_printed_lines(tmp_path: Path, name: str) -> None:
    program = (
        "import sys; from pathlib import Path; from regroup.cli.result_files import write_result\n"
        "print('before'); write_result(Path(sys.argv[1]), 'result\\n'); print('after')"
    )
    with (tmp_path / "out.txt").open("wb") as output:
        subprocess.run([sys.executable, "-c", program, name], cwd=tmp_path, stdout=output, check=True, timeout=30)
    assert (tmp_path / "out.txt").read_text() == "before\nresult\nafter\n"
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]


def refusal(number: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_a_file_that_cannot_be_replaced_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "result.json"
    path.write_text("a longer former result")
    monkeypatch.setattr(Path, "replace", refusal(number))
    write_result(path, "one")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENAMETOOLONG])
def test_a_file_in_a_folder_that_takes_no_new_file_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "result.json"
    open_file = Path.open

    def open_former(opened: Path, *arguments: Any, **options: Any) -> Any:
        return open_file(opened, *arguments, **options) if opened == path else refusal(number)()

    path.write_text("one")
    monkeypatch.setattr(Path, "open", open_former)
    write_result(path, "two")
    assert path.read_text() == "two"


def test_an_error_of_a_file_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*nowhere/result\.json'"):
        write_result(tmp_path / "nowhere" / "result.json", "one")
