"""The lock files: the demo needs few and small packages, and the tests add to them."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_DEMO_BYTES = 40_000_000
MODULES_OF_THE_DEMO = (
    "regroup.cli.jobs",
    "regroup.cli.demo.command",
    "regroup.cli.demo.client",
    "regroup.cli.serve.command",
    "regroup.cli.store.events",
    "regroup.cli.store.history",
)
"""The demo itself, the processes that it starts, and the commands that it names at its end."""


def pins(name: str) -> set[tuple[str, str]]:
    """Names and versions in a lock file; a package may have another version on another platform."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def test_all_files_pin_the_same_versions() -> None:
    assert pins("requirements-demo.lock") | pins("requirements-docker.lock") < pins("requirements.lock")


@pytest.mark.parametrize("name", ["requirements-demo.lock", "requirements-docker.lock", "requirements.lock"])
def test_every_pin_has_a_hash_and_there_is_no_index_address(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(name))
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
    assert "index" not in text


def test_the_packages_of_the_demo_are_small() -> None:
    sizes = {}
    for name, _ in pins("requirements-demo.lock"):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue  # of another platform
        paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
        sizes[name] = sum(path.stat().st_size for path in paths if path.exists())
    assert sizes.keys() >= {"confluent-kafka", "msgspec", "rich"}
    assert sum(sizes.values()) < MAX_DEMO_BYTES, sizes


def test_the_demo_runs_without_any_other_package() -> None:
    """Imports of other installed packages fail here, as they do where only the packages of the demo are installed."""
    pinned = {name for name, _ in pins("requirements-demo.lock")} | {"kafka-regroup"}
    others = [
        module
        for module, names in packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", name).lower() for name in names} & pinned
    ]
    program = f"import sys; sys.modules.update(dict.fromkeys({others})); import {', '.join(MODULES_OF_THE_DEMO)}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
