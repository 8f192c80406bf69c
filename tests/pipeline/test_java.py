"""Spark's Java, wherever it comes from."""

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


def test_the_shim_drops_the_one_flag_and_keeps_every_other_word(tmp_path: Path) -> None:
    home = java.java_home({"JAVA_HOME": str(fake_java(tmp_path / "jdk 21", "21.0.1"))})
    words = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "Main", "", "$x"]
    said = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == ["-cp", "a b:*", "Main", "", "$x"]


def test_an_old_java_gives_way_to_the_one_that_pip_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, brought = (fake_java(tmp_path / name, name) for name in ("11.0.2", "25.0.2"))
    monkeypatch.setattr(java, "java_by_pip", lambda: brought / "bin" / "java")
    home = java.java_home({"JAVA_HOME": str(old)})
    assert str(brought) in (home / "bin" / "java").read_text()


def test_without_any_java_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java_by_pip", lambda: None)
    with pytest.raises(java.NoJava, match=r"There is no Java.*spark-java"):
        java.java_home({"PATH": str(tmp_path)})
    with pytest.raises(java.NoJava, match="older than Java 17"):
        java.java_home({"JAVA_HOME": str(fake_java(tmp_path, "1.8.0_402"))})
