"""Every example passes with the clients from their registries; those whose tools are missing are skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.run import EXAMPLES, FOLDER, missing

DOWNLOAD_AND_RUN_S = 600


@pytest.mark.slow
@pytest.mark.timeout(DOWNLOAD_AND_RUN_S)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes(name: str) -> None:
    if needs := list(missing(EXAMPLES[name])):
        pytest.skip(f"needs {', '.join(needs)}")
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", name],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_AND_RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_folder_has_an_example() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir() and not path.name.startswith(("__", "docker"))}
    assert folders == {example.folder for example in EXAMPLES.values()}


def test_an_unknown_name_is_refused() -> None:
    done = subprocess.run([sys.executable, FOLDER / "run.py", "rust"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unknown: rust; the examples are confluent-kafka, aiokafka")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", "go"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path), "REGROUP": "no-such-regroup"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("left out: go (needs go, the command regroup")
