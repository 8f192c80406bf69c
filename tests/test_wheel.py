"""The wheel, built and installed outside the checkout, as a user gets it."""

import os
import subprocess
import sys
import venv
from email.parser import Parser
from pathlib import Path
from sysconfig import get_path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
IMPORT_EVERYTHING = """
import importlib, pkgutil, sys, regroup
names = [each.name for each in pkgutil.walk_packages(regroup.__path__, "regroup.")]
for name in names:
    if not name.endswith(".__main__"):  # which would run
        importlib.import_module(name)
for name, module in sorted(sys.modules.items()):
    if name.startswith("regroup."):
        print(name, module.__file__)
"""


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    run(*build, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path) -> Path:
    """A fresh environment with the wheel alone; the dependencies come from the environment that runs the tests."""
    home = wheel.parent / "environment"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    run(*pip, cwd=home)
    return home


def dependencies(home: Path) -> dict[str, str]:
    """The packages of this environment as PYTHONPATH, without the editable install, which leads to the checkout."""
    borrowed = home / "borrowed"
    borrowed.mkdir(exist_ok=True)
    for each in Path(get_path("purelib")).iterdir():
        link = borrowed / each.name
        if not (each.name.startswith(("kafka_regroup", "_kafka_regroup")) or each.suffix == ".pth" or link.exists()):
            link.symlink_to(each)
    return {"PYTHONPATH": str(borrowed), "PYTHONDONTWRITEBYTECODE": "1"}


def test_the_wheel_holds_the_rooms_below_regroup_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(
            archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        )
    tops = {name.split("/")[0] for name in names}
    assert tops == {"regroup", f"kafka_regroup-{metadata['Version']}.dist-info"}
    assert "regroup/__init__.py" not in names
    rooms = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert {name.split("/")[1] for name in names if name.startswith("regroup/")} == rooms | {"__main__.py"}
    assert {name.split("/")[1] for name in names if name.endswith("/py.typed")} == rooms
    assert not [name for name in names if name.endswith(".pyc")]
    assert (metadata["Name"], metadata["Requires-Python"]) == ("kafka-regroup", ">=3.11")


def test_the_installed_wheel_runs_and_imports_outside_the_checkout(installed: Path) -> None:
    environment = dependencies(installed)
    python = installed / "bin" / "python"
    for command in ([installed / "bin" / "regroup"], [python, "-m", "regroup"]):
        assert run(*command, "--version", cwd=installed, **environment).startswith("regroup 0.")
    output = run(python, "-W", "error", "-c", IMPORT_EVERYTHING, cwd=installed, **environment)
    imported = dict(line.split(" ", 1) for line in output.splitlines())
    (packages,) = installed.glob("lib/python*/site-packages")
    sources = {
        "regroup." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for room in ROOT.glob("*/py.typed")
        for path in room.parent.rglob("*.py")
        if path.name != "__main__.py"
    }
    assert imported.keys() == sources
    assert all(Path(file).is_relative_to(packages) for file in imported.values())
    for top in ("protocol", "storage", "server", "cli", "tests"):
        assert not (packages / top).exists(), f"{top} would shadow a package of the user"
