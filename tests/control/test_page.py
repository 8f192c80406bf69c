"""The page of the control port, drawn without a browser."""

import json
import shlex
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from regroup.control.document import openapi_document
from regroup.control.endpoints.all import ENDPOINTS
from regroup.testing import Emulator
from tests.control.conftest import Control
from tests.testing.conftest import stable_pair

PAGE = files("regroup.control.web").joinpath("page", "page.js")
HOSTILE = "<img src=x onerror=alert(1)>"

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def drawn(document: dict[str, Any], folder: Path) -> dict[str, list[str]]:
    """The texts, paragraphs and names of the elements that the page makes of a document."""
    (folder / "openapi.json").write_text(json.dumps(document), encoding="utf-8")
    command = ["node", Path(__file__).with_name("page_in_node.js"), str(PAGE), folder / "openapi.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    shown: dict[str, list[str]] = json.loads(done.stdout)
    return shown


def test_every_endpoint_has_a_section_with_a_line_for_curl(tmp_path: Path) -> None:
    shown = drawn(openapi_document(), tmp_path)
    lines = [text for text in shown["texts"] if text.startswith("curl ")]
    assert [shlex.split(line)[-1] for line in lines] == [f"http://127.0.0.1:9080{each.path}" for each in ENDPOINTS]
    assert {endpoint.description.replace("`", "") for endpoint in ENDPOINTS} <= set(shown["paragraphs"])


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_lines_can_be_typed(kafka: Emulator, control: Control, tmp_path: Path) -> None:
    stable_pair(kafka)
    texts = drawn(openapi_document(), tmp_path)["texts"]
    for path in ("/group", "/group/wait-stable", "/exchanges", "/topic/produce", "/fault/add", "/broker/slow"):
        (line,) = [text for text in texts if text.startswith("curl ") and text.endswith(f"9080{path}")]
        words = shlex.split(line.replace("9080", str(control.port)))
        done = subprocess.run([*words, "--silent", "--fail"], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, bool(done.stdout)) == (0, True), line


def test_a_hostile_text_stays_a_text(tmp_path: Path) -> None:
    document = openapi_document()
    operation = document["paths"]["/group"]["get"]
    operation["description"] = operation["parameters"][0]["example"] = HOSTILE
    shown = drawn(document, tmp_path)
    assert HOSTILE in shown["texts"]
    assert "img" not in shown["tags"]
