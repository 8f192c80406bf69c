"""The Dockerfile and the compose file, without a Docker daemon: their commands are run in a folder, as another user."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from regroup.cli.main import build_parser

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "examples" / "docker" / "compose.yaml").read_text(encoding="utf-8"))
NOBODY = 65_534
TIMEOUT_S = 300


class Instruction(NamedTuple):
    word: str
    rest: str


def instructions() -> list[Instruction]:
    """The instructions of the Dockerfile, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def last(word: str) -> str:
    return next(each.rest for each in reversed(instructions()) if each.word == word)


def command() -> list[str]:
    """What the container runs."""
    return [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]


def health_check() -> list[str]:
    return list(json.loads(last("HEALTHCHECK").partition("CMD ")[2]))


def test_the_image_is_slim_and_its_process_is_not_root() -> None:
    words = [each.word for each in instructions()]
    assert all(":3.12-slim" in each.rest for each in instructions() if each.word == "FROM")
    assert int(last("USER")) > 0
    assert words.index("USER") < words.index("HEALTHCHECK") < words.index("CMD")
    assert last("VOLUME") == last("WORKDIR") == "/data"
    assert last("EXPOSE").split() == ["9092", "9080"]
    copied = [each.rest for each in instructions()[words.index("FROM", 1) :] if each.word == "COPY"]
    assert copied == ["--from=build /opt/regroup /opt/regroup"]


@pytest.mark.parametrize(
    "words", [command(), *(["regroup", *shlex.split(each["command"])] for each in COMPOSE["services"].values())]
)
def test_its_commands_can_be_typed(words: list[str]) -> None:
    args = build_parser(words[1:]).parse_args(words[1:])
    if args.command == "serve":
        assert (args.host, args.advertise[1], str(args.store)) == ("0.0.0.0", 9092, "/data/regroup.db")


def test_the_compose_file_fits_the_image() -> None:
    kafka, consumers = COMPOSE["services"]["kafka"], COMPOSE["services"]["consumers"]
    assert (ROOT / "examples" / "docker" / kafka["build"] / "Dockerfile").is_file()
    assert kafka["hostname"] == "kafka"
    assert kafka["volumes"] == ["groups:/data"]
    assert list(COMPOSE["volumes"]) == ["groups"]
    assert kafka["environment"]["REGROUP_CONTROL_TOKEN"].startswith("${REGROUP_CONTROL_TOKEN:?")
    assert all(each.startswith("127.0.0.1:") for each in kafka["ports"])
    assert consumers["depends_on"]["kafka"]["condition"] == "service_healthy"


def test_the_build_sees_every_room_and_lock_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert {line[1:] for line in lines if line.startswith("!")} == packages | {
        *("*.lock", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE", "regroup_pytest.py")
    }
    assert lines[0] == "*"


def as_another_user() -> dict[str, Any]:
    """Arguments of Popen: only root can become another."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


def base_python() -> tuple[Path, dict[str, Any]]:
    """A Python for the commands, and the user that can run it: another one where there is such a Python."""
    own = Path(sys.base_prefix) / "bin" / "python3"
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    for python in (own, Path("/usr/local/bin/python3"), Path("/usr/bin/python3")):
        with suppress(OSError):
            words = [python, "-c", check]
            if subprocess.run(words, cwd="/", capture_output=True, check=False, **as_another_user()).returncode == 0:
                return python, as_another_user()
    return own, {}


class Folder:
    """A folder in place of the container's file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.python, self.user = base_python()

    def inside(self, text: str) -> str:
        """The text with the container's paths below this folder."""
        return re.sub(r"(?<![\w.])/(opt|source|wheels|data)\b", lambda match: f"{self.path}/{match[1]}", text)

    def run(self, text: str) -> None:
        done = subprocess.run(
            ["sh", "-c", self.inside(text)],
            cwd=self.path,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def environment(self, **more: str) -> dict[str, str]:
        """Python of the tests as `python`, and nothing of the checkout."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "no_pr"))}
        paths = [self.path / "opt" / "regroup" / "bin", self.path / "bin", "/usr/local/bin", "/usr/bin", "/bin"]
        return kept | {"PATH": os.pathsep.join(map(str, paths)), "HOME": str(self.path / "data"), **more}


@pytest.fixture(scope="module")
def folder() -> Iterator[Folder]:
    """The result of the instructions COPY and RUN, but for `useradd`."""
    path = Path(tempfile.mkdtemp(prefix="regroup-image-"))
    path.chmod(0o755)
    made = Folder(path)
    try:
        for name in ("opt", "bin", "data"):
            (path / name).mkdir()
        (path / "bin" / "python").symlink_to(made.python)
        copy_source(path / "source")
        for each in instructions():
            if each.word == "RUN" and not each.rest.startswith("useradd"):
                made.run(each.rest)
        shutil.rmtree(path / "source")  # the second stage has none
        if made.user:
            os.chown(path / "data", NOBODY, NOBODY)
        yield made
    finally:
        shutil.rmtree(path)


def copy_source(target: Path) -> None:
    """What the instruction COPY sees."""
    target.mkdir()
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
        for source in ROOT.glob(line[1:]) if line.startswith("!") else ():
            if source.is_dir():
                shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)


def free_port() -> int:
    with closing(socket.socket()) as drawn:
        drawn.bind(("127.0.0.1", 0))
        return int(drawn.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_commands_of_the_dockerfile_make_a_server_that_is_healthy(folder: Folder) -> None:
    port, control = free_port(), free_port()
    words = [folder.inside(word).replace("9092", str(port)) for word in command()]
    words += ["--port", str(port), "--control", f"0.0.0.0:{control}"]
    environment = folder.environment(REGROUP_CONTROL_TOKEN="a token for this test alone")
    check = [word.replace("9092", str(port)) for word in health_check()]
    options = {"cwd": folder.path / "data", "env": environment, "text": True, **folder.user}
    assert subprocess.run(check, **options, capture_output=True, timeout=20, check=False).returncode != 0
    with subprocess.Popen(words, **options, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == f"listening on 0.0.0.0:{port}\n"
        assert process.stdout.readline() == f"control on http://0.0.0.0:{control}\n"
        healthy = subprocess.run(check, **options, capture_output=True, timeout=20, check=False)
        assert healthy.returncode == 0, healthy.stderr
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    store = folder.path / "data" / "regroup.db"
    assert store.stat().st_uid == (NOBODY if folder.user else os.getuid())
