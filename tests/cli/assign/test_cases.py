"""`regroup assign FILE`: cases from a file and from standard input, and invalid ones."""

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from regroup.cli.main import main

VECTORS = Path(__file__).parents[2] / "assignors" / "vectors"
TEXTBOOK = "A/four-topics-of-2-C1-leaves"


def unpacked(name: str, to: Path) -> str:
    path = to / f"{name}.jsonl"
    path.write_bytes(gzip.decompress((VECTORS / f"{name}.jsonl.gz").read_bytes()))
    return str(path)


def regroup_assign(*words: str) -> int:
    return main(["assign", *words])


def results(capfdbinary: pytest.CaptureFixture[bytes]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", ["roundrobin", "server_uniform", "sticky_multistep"])
def test_every_case_of_a_file_has_its_line(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = unpacked(name, tmp_path)
    assert regroup_assign(path) == 0
    cases = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    for case, result in zip(cases, results(capfdbinary), strict=True):
        if "steps" in case:
            assert result == {"id": case["id"], "steps": [step["expected"] for step in case["steps"]]}
        elif "expected" in case:
            assert result == {"id": case["id"], "assignment": case["expected"]}
        else:
            assert result.keys() == {"id", "error"}


def test_the_older_sticky_assigns_as_in_textbooks(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert regroup_assign(unpacked("sticky", tmp_path), "--algorithm", "before-2.6") == 0
    textbook = next(result for result in results(capfdbinary) if result["id"] == TEXTBOOK)
    assert textbook["assignment"] == {
        "C0": [["t3", 0], ["t0", 0], ["t1", 1], ["t2", 0]],
        "C2": [["t1", 0], ["t2", 1], ["t0", 1], ["t3", 1]],
    }


STEP = '"partitionsPerTopic": {"t": 2}, "members": [{"id": "m", "topics": ["t"]}]'
GOOD = f'{{"id": "good", "assignor": "range", {STEP}}}'
GOOD_ANSWER = {"id": "good", "assignment": {"m": [["t", 0], ["t", 1]]}}


@pytest.mark.parametrize(
    ("line", "case_id", "complaint"),
    [
        (b'{"id": "x"', None, "truncated"),
        (b"\xff\xfe", None, "malformed"),
        (b"[]", None, "Expected `object`"),
        (b"[" * 100_000, None, "Expected `object`, got `array`"),
        (b'{"assignor": "range"}', None, "missing required field `id`"),
        (b'{"id": 7, "assignor": "range"}', 7, "Expected `str`, got `int`"),
        (b'{"id": "x"}', "x", "the field `assignor` is missing"),
        (b'{"id": "x", "kind": "subscription", "hex": ""}', "x", "bytes of the consumer protocol"),
        (b'{"id": "x", "hex": "00", "hash": 5}', "x", "a hash of a key"),
        (b'{"id": "x", "assignor": "range"}', "x", "missing required field `partitionsPerTopic`"),
        (f'{{"id": "x", "assignor": "stickky", {STEP}}}'.encode(), "x", "unknown assignor 'stickky'"),
        (f'{{"id": "x", "assignor": "uniform", {STEP}}}'.encode(), "x", "roundrobin, server-range, server-uniform, "),
        (
            b'{"id": "x", "assignor": "server-range", "partitionsPerTopic": {"t": 1}, '
            b'"subscriptionType": "homogeneous", "members": [{"id": "a", "topics": ["t"]}, {"id": "b"}]}',
            "x",
            "the members subscribe to different topics",
        ),
        (b'{"id": "x", "assignor": "range", "partitionsPerTopic": {"t": -1}, "members": []}', "x", "`int` >= 0"),
        (
            b'{"id": "x", "assignor": "range", "partitionsPerTopic": {"t": 9000000000000}, "members": []}',
            "x",
            "<= 10000000",
        ),
        (
            b'{"id": "x", "assignor": "range", "partitionsPerTopic": {}, "members": [{"id": "m"}, {"id": "m"}]}',
            "x",
            "twice",
        ),
        (
            b'{"id": "x", "assignor": "sticky", "partitionsPerTopic": {"t": 1}, '
            b'"members": [{"id": "m", "topics": ["t"], "userDataRaw": "zz"}]}',
            "x",
            "userDataRaw of member m is not hexadecimal",
        ),
        (
            b'{"id": "x", "assignor": "sticky", "steps": [{"partitionsPerTopic": {"t": 2}, "members": [{"id": "m", '
            b'"topics": ["t"], "owned": [["t", 0], ["t", 1]], "generation": 1, "userDataGeneration": 1}, {"id": "n", '
            b'"topics": ["t"], "owned": [["t", 3]], "generation": 1, "userDataGeneration": 1}]}]}',
            "x",
            "step 1: the quotas cannot be met",
        ),
    ],
)
def test_an_invalid_case_is_explained_and_the_others_go_on(
    line: bytes,
    case_id: object,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    text = b"\n".join([line, b"", GOOD.encode()])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert regroup_assign("-") == 0
    bad, good = results(capfdbinary)
    assert good == GOOD_ANSWER
    assert bad["id"] == case_id
    assert complaint in str(bad.get("error", bad))


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert regroup_assign("/no/such/file.jsonl") == 2
    assert capsys.readouterr().err == "regroup assign: cannot read /no/such/file.jsonl: No such file or directory\n"


def test_a_pipe_that_is_closed_early_is_no_error(tmp_path: Path) -> None:
    path = unpacked("sticky", tmp_path)
    command = [sys.executable, "-m", "regroup.cli", "assign", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        process.stdout.close()
        assert (first["id"], process.stderr.read(), process.wait()) == ("A/four-topics-of-2", b"", 0)


def test_an_explanation_shows_the_partitions_of_each_member_and_what_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert regroup_assign(unpacked("sticky", tmp_path), "--explain", "--id", TEXTBOOK) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "there is a quota: 4 partitions for each member." in text
    assert "│ C0 │ 4 │ t0-0 t3-0 t1-1 │ t0-1 │ │" in text
    assert "5 partitions stayed, 0 moved, 3 had no owner." in text


def test_an_explanation_of_a_sequence_shows_withheld_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unpacked("cooperative-sticky_multistep", tmp_path)
    assert regroup_assign(path, "--explain", "--id", "C/001") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "C/001, step 3: leave+join" in text
    assert "from 160, which left, to" in text
    assert "t2-2: withheld, 8c1 must revoke it first" in text


@pytest.mark.parametrize("name", ["range", "roundrobin", "server_range", "server_uniform", "cooperative-sticky"])
def test_everything_can_be_explained(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked(name, tmp_path)
    assert regroup_assign(path, "--explain") == 0
    assert "member" in capsys.readouterr().out


def test_a_missing_or_invalid_case_cannot_be_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked("sticky", tmp_path)
    assert regroup_assign(path, "--explain", "--id", "unknown") == 2
    assert "it holds no case with the id unknown" in capsys.readouterr().err
    assert regroup_assign(path, "--explain", "--id", "A/topic-recreated-smaller") == 2
    assert "C0 still claims partition 2 of topic t0, which has only 2" in capsys.readouterr().err
