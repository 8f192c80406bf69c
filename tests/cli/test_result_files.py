"""Results of commands in files, also if they cannot be written to the end."""

import errno
import os
from pathlib import Path

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
