"""`regroup view` as a process, over HTTP; and `regroup export --html`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.classroom.served import ServedPage, served_page
from tests.cli.conftest import RunCommand
from tests.cli.store.rows import change

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn")


@pytest.fixture(scope="module")
def viewed(lesson_store: Path) -> Iterator[ServedPage]:
    with served_page("page", "view", lesson_store) as served:
        yield served


def test_the_page_its_files_and_its_histories_are_served(viewed: ServedPage) -> None:
    page = viewed.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path in re.findall(r'(?:src|href)="([^"]+)"', page.body.decode()):
        assert viewed.get(f"/{path}").status == 200, path
    assert viewed.get("/timelines").json == {"runs": [{"run": 0, "label": "lesson.db", "group": "lab"}]}
    document = viewed.get("/timeline?run=0&group=lab").json
    assert document["group"] == "lab"
    last, number = document["last"][0], len(document["moments"]["position"])
    assert number > 30
    assert viewed.get(f"/timeline?run=0&group=lab&after={last}").json["moments"]["position"] == []


def test_the_page_may_load_its_own_files_alone(viewed: ServedPage) -> None:
    policy = viewed.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/", "/page/words.js", "/timelines", "/timeline?group=lab", "/unknown"])
def test_every_path_checks_host_and_origin(viewed: ServedPage, path: str) -> None:
    assert viewed.get(path, host="evil.example").status == 403
    assert viewed.get(path, origin="http://evil.example").status == 403
    assert viewed.get(path, sec_fetch_site="cross-site").status == 403


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/timeline?group=other", 404, "unknown group 'other'; groups in this store: lab"),
        ("/timeline?run=1&group=lab", 404, "there is no run 1"),
        ("/timeline?run=-1&group=lab", 422, "invalid run: '-1'; give a whole number"),
        ("/timeline?after=x&group=lab", 422, "invalid after: 'x'; give a whole number"),
        (f"/timeline?after={'9' * 40}&group=lab", 422, "invalid after: "),
        ("/page/../index.html", 404, "is not a path of this page"),
    ],
)
def test_what_is_not_there_is_answered_in_one_sentence(
    viewed: ServedPage, path: str, status: int, sentence: str
) -> None:
    answer = viewed.get(path)
    assert answer.status == status
    assert sentence in answer.json["error"]


def test_nothing_can_be_changed(viewed: ServedPage) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert viewed.get("/timeline?group=lab", method).status == 405


def test_two_stores_are_listed_side_by_side(lesson_store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(lesson_store.read_bytes())
    with served_page("page", "view", lesson_store, other, "--group", "lab") as served:
        runs = served.get("/timelines").json["runs"]
        assert [(each["label"], each["group"]) for each in runs] == [("lesson.db", "lab"), ("other.db", "lab")]
        assert served.get("/timeline?run=1&group=lab").json["group"] == "lab"


def test_what_cannot_be_shown_is_refused_before_serving(
    lesson_store: Path, tmp_path: Path, run_command: RunCommand
) -> None:
    assert "there is no store yet" in run_command("view", tmp_path / "none.db").err
    assert "unknown group 'x'" in run_command("view", lesson_store, "--group", "x").err
    assert run_command("view", lesson_store, "--port", "70000").code == 2


@pytest.mark.parametrize("column", ["payload", "cause"])
def test_a_damaged_store_is_one_clear_error(
    lesson_store: Path, tmp_path: Path, run_command: RunCommand, column: str
) -> None:
    store = tmp_path / "damaged.db"
    store.write_bytes(lesson_store.read_bytes())
    change(store, f"UPDATE events SET {column} = '{{}}]' WHERE position = 20")
    code, out, err = run_command("view", store)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "damaged.db: " in err
    assert "ecord 20 is damaged" in err
    assert run_command("view", lesson_store, store).err == err, "the second store is named as the first is"


def test_html_writes_the_page_as_one_file(lesson_store: Path, tmp_path: Path, run_command: RunCommand) -> None:
    file = tmp_path / "page.html"
    assert run_command("export", lesson_store, "--group", "lab", "--html", file) == (0, "", "")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert file.stat().st_size < 400_000


@pytest.mark.parametrize("words", [("--from", "5"), ("--to", "9"), ("--output", "x.svg")])
def test_html_takes_the_whole_history(
    lesson_store: Path, tmp_path: Path, run_command: RunCommand, words: tuple[str, str]
) -> None:
    code, _, err = run_command("export", lesson_store, "--group", "lab", "--html", tmp_path / "x.html", *words)
    assert code == 2
    assert f"--html FILE holds the whole history, and takes no {words[0]}" in err
