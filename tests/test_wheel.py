"""The wheel, built and installed outside the checkout, as a user gets it; and the commands that README gives them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import Parser
from pathlib import Path
from sysconfig import get_path
from zipfile import ZipFile

import pytest

from tests.documents import README, ROOT, commands, pip_installs, programs
from tests.make_docs.transcripts import free_ports

pytestmark = pytest.mark.xdist_group("wheel")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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
    """Run a command to its end, without the PYTHONPATH of the tests; return its standard output."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env={**inherited, **environment},
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


@pytest.mark.slow
def test_the_wheel_holds_the_packages_below_regroup_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(
            archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        )
    tops = {name.split("/")[0] for name in names}
    assert tops == {"regroup", "regroup_pytest.py", f"kafka_regroup-{metadata['Version']}.dist-info"}
    assert "regroup/__init__.py" not in names
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert {name.split("/")[1] for name in names if name.startswith("regroup/")} == packages | {"__main__.py"}
    assert {name.split("/")[1] for name in names if name.endswith("/py.typed")} == packages
    assert not [name for name in names if name.endswith(".pyc")]
    assert {"LICENSE", "NOTICE"} == {Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Project-URL" not in metadata, "there is no address of the project yet"


FOREIGN_SUITE = {
    "server/__init__.py": "",
    "server/rules.py": "def check(value):\n    assert value == 1\n    return True\n",
    "storage/__init__.py": "",
    "protocol/__init__.py": "",
    "test_rules.py": """
import sys
from pathlib import Path
from server.rules import check
import protocol, storage

def test_own_packages_are_used_and_left_as_they_are(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("regroup_pytest"), "the entry point does not load the plugin"
    assert check(1)
    assert [Path(each.__file__).parent.parent for each in (protocol, storage)] == [Path(__file__).parent] * 2
    assert "AssertionRewritingHook" not in type(sys.modules["server.rules"].__loader__).__name__
    assert not [name for name in sys.modules if name.startswith("regroup.")]
""",
}


@pytest.mark.slow
def test_the_plugin_leaves_the_packages_of_a_suite_alone(installed: Path, tmp_path: Path) -> None:
    """pytest rewrites the packages of a plugin's distribution; those of the wheel have names that others use too."""
    for name, text in FOREIGN_SUITE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = (installed / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    environment = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", **dependencies(installed)}
    assert "1 passed" in run(*command, cwd=tmp_path, **environment)


@pytest.mark.slow
def test_the_test_of_the_readme_passes(installed: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = [block.partition("```")[0] for block in readme.split("```py\n")[1:]]
    (tmp_path / "test_billing.py").write_text(shown, encoding="utf-8")
    command = (installed / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    assert "1 passed" in run(*command, cwd=tmp_path, PYTEST_ADDOPTS="", **dependencies(installed))


@pytest.mark.slow
def test_the_installed_wheel_runs_and_imports_outside_the_checkout(installed: Path) -> None:
    environment = dependencies(installed)
    python = installed / "bin" / "python"
    for command in ([installed / "bin" / "regroup"], [python, "-m", "regroup"]):
        assert run(*command, "--version", cwd=installed, **environment) == f"regroup {PROJECT['version']}\n"
    output = run(python, "-W", "error", "-c", IMPORT_EVERYTHING, cwd=installed, **environment)
    imported = dict(line.split(" ", 1) for line in output.splitlines())
    (packages,) = installed.glob("lib/python*/site-packages")
    sources = {
        "regroup." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ROOT.glob("*/py.typed")
        for path in package.parent.rglob("*.py")
        if path.name != "__main__.py"
    }
    assert imported.keys() == sources
    assert all(Path(file).is_relative_to(packages) for file in imported.values())
    for top in ("protocol", "storage", "server", "cli", "tests"):
        assert not (packages / top).exists(), f"{top} would shadow a package of the user"


# What README and messages tell a user to type

NOT_IN_A_FRESH_ENVIRONMENT = {
    "make demo": "tests/cli/demo",
    "make test": "it runs these tests",
    "regroup watch --mqtt mqtt://localhost": "needs an MQTT broker: tests/cli/watch",
    "regroup serve --topic orders:6 --mqtt embedded": "needs amqtt: tests/server/mqtt",
    "regroup members --mqtt mqtt://localhost --group g --topic orders --mqtt-name anna --mqtt-control": "the same",
    "mosquitto_pub -t regroup/main/members/anna-2/control -m 'pause 20s' -q 1": "the same",
    "regroup lesson 1 --page": "needs starlette and uvicorn: tests/cli/classroom/lesson_page",
    "regroup campaign pipeline/plans/static-or-dynamic.yaml out": "needs Spark: tests/pipeline",
    "regroup pipeline ingest 'runs/*.db' mine": "the same",
    "regroup pipeline tables out": "the same",
    "regroup report out": "the same",
}
"""Commands of README that the tests below do not type, with the reason or what tests them."""
BROKERS = 3
"""How many brokers a command of README starts at most, each on a port of its own."""
SHORTENED = {"--seeds 1000": "--seeds 8"}
"""Changes of commands that would take minutes."""


@pytest.fixture(scope="session")
def checkout(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what pip needs of the checkout, with the wheel in it."""
    folder = tmp_path_factory.mktemp("checkout") / "regroup"
    folder.mkdir()
    for package in ROOT.glob("*/py.typed"):
        shutil.copytree(package.parent, folder / package.parent.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "regroup_pytest.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(wheel, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("words", list(pip_installs()))
def test_a_printed_pip_install_installs(words: str, checkout: Path, tmp_path: Path) -> None:
    """Without an index: the environment that runs the tests has every package that may be printed, but pre-commit."""
    if words == "pre-commit":
        pytest.skip("the tests have no pre-commit")
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--no-index")
    output = run(*pip, "--no-build-isolation", *shlex.split(words), cwd=checkout, **dependencies(home))
    if "regroup" in words or words.strip("'").startswith("."):
        assert f"Successfully installed kafka-regroup-{PROJECT['version']}" in output
    else:
        assert output.count("Requirement already satisfied") >= len(shlex.split(words))


@pytest.mark.slow
def test_pip_makes_the_wheel_that_the_readme_names(checkout: Path, tmp_path: Path) -> None:
    command = "pip wheel --no-deps ."
    assert command in commands(README)
    options = ("--no-build-isolation", "--wheel-dir", tmp_path)
    run(sys.executable, "-m", *shlex.split(command), *options, cwd=checkout)
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka_regroup-{PROJECT['version']}-py3-none-any.whl"]


@pytest.fixture(scope="session")
def fresh(checkout: Path) -> Path:
    """A fresh environment into which pip has installed the wheel with its dependencies, from an index."""
    home = checkout.parent / "fresh"
    venv.create(home, symlinks=True, with_pip=True)
    (wheel,) = checkout.glob("*.whl")
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    probe = subprocess.run([*pip, "--no-deps", "msgspec"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"pip reaches no index: {probe.stderr.strip()[-200:]}")
    run(*pip, f"./{wheel.name}", cwd=checkout)
    return home


@contextmanager
def serving(command: str, environment: Path, folder: Path) -> Iterator[None]:
    """The command `regroup serve …` as a process, from its line `listening on` to SIGTERM."""
    words = [environment / "bin" / "regroup", *shlex.split(command)[1:]]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(
            words, cwd=folder, env=inherited, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout
        assert process.stdout.readline().startswith("listening on 127.0.0.1:"), (folder / "serve.log").read_text()
        yield
    finally:
        process.terminate()
        assert process.wait(30) == 0
        for pipe in (process.stdin, process.stdout):
            assert pipe
            pipe.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(list(programs(README)))))
def test_a_fresh_environment_runs_the_programs_of_the_readme(number: int, fresh: Path, tmp_path: Path) -> None:
    program, output = list(programs(README))[number]
    printed = run(fresh / "bin" / "python", "-W", "error", "-c", program, cwd=tmp_path)
    assert output is None or printed == output


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fresh_environment_runs_the_commands_of_the_readme(fresh: Path, tmp_path: Path) -> None:
    """In their order, each `regroup serve` while the commands run that follow it up to `regroup verify`."""
    port = free_ports(BROKERS)
    typed = [each for each in commands(README) if each not in NOT_IN_A_FRESH_ENVIRONMENT]
    assert len(typed) + len(NOT_IN_A_FRESH_ENVIRONMENT) == len(commands(README)), "README has dropped a command"
    others = [each for each in typed if not each.startswith(("regroup ", "pip "))]
    assert others == []
    environment = {"PATH": f"{fresh / 'bin'}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}

    def type_command(command: str) -> str:
        for long, short in SHORTENED.items():
            command = command.replace(long, short)
        if not shutil.which("jq"):
            command = re.sub(r" \| jq .*", "", command)
        return run("bash", "-c", command.replace("9092", str(port)), cwd=tmp_path, **environment)

    serves = [each for each in typed if each.startswith("regroup serve ")]
    plain = [each for each in typed if each.startswith("regroup ") and not each.startswith("regroup serve ")]
    verify = next(each for each in plain if each.startswith("regroup verify"))
    with serving(serves[0].replace("9092", str(port)), fresh, tmp_path):
        while plain[0] != verify:
            type_command(plain.pop(0))
        shown = type_command(plain.pop(0))
    assert re.fullmatch(r"\d+ events, 1 group: every invariant holds, and the snapshots equal the fold.\n", shown)
    for command in plain:
        type_command(command)
    for command in serves[1:]:
        # Drawn now: in the meantime another process may have taken a port that was free at the beginning.
        with serving(command.replace("9092", str(free_ports(BROKERS))), fresh, tmp_path):
            pass
