"""The Python of docs/testing.md passes as a suite of a user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_example_of_the_guide_passes(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in guide.split("```python\n")[1:]]
    for number, block in enumerate(blocks):
        (tmp_path / f"test_{number}.py").write_text(block, encoding="utf-8")
    tests = sum(block.count("def test_") for block in blocks)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "regroup_pytest", "-p", "no:cacheprovider", tmp_path]
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr
