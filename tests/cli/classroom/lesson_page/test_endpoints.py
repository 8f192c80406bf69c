"""The page of lessons over HTTP: what is shown before and after an answer, tasks, the progress, and refusals."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn")

from tests.classroom.lessons.files import SMALL
from tests.cli.classroom.assignor_file import IN_TURN
from tests.cli.classroom.served import ServedPage, served_page
from tests.cli.conftest import RunCommand

HEADERS = ("cache-control", "content-security-policy", "x-content-type-options")


@pytest.fixture(scope="module")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def served(state_folder: Path) -> Iterator[ServedPage]:
    with served_page("lessons", "lesson", 1, "--page") as lessons:
        yield lessons


def kept(state_folder: Path) -> dict[str, object]:
    """The progress by lesson; empty as long as nothing has been kept."""
    path = state_folder / "regroup" / "lessons.json"
    found: dict[str, object] = json.loads(path.read_bytes())["lessons"] if path.exists() else {}
    return found


def test_the_page_and_the_lessons_are_served(served: ServedPage) -> None:
    assert served.address.endswith("/?lesson=1")
    page = served.get("/?lesson=1")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert b"page/lesson.js" in page.body
    assert served.get("/page/lesson.js").status == 200
    english, chinese = (served.get(f"/lessons?language={each}").json["lessons"] for each in ("en", "zh"))
    assert english[0]["title"] == "One consumer, seven partitions"
    assert chinese[0]["title"] != english[0]["title"]
    assert [each["number"] for each in english] == list(range(1, len(english) + 1))


def test_a_lesson_is_shown_without_its_answer(served: ServedPage) -> None:
    lesson = served.get("/lesson?lesson=1&language=en").json
    assert set(lesson["question"]) == {"kind", "ask", "options", "unit", "hint"}
    assert set(lesson["task"]) == {"kind", "ask", "settings"}
    assert lesson["next"] == 2
    assert "replay" not in lesson


def test_an_answer_is_checked_and_the_first_one_is_kept(served: ServedPage, state_folder: Path) -> None:
    answer = served.post("/lesson/answer", lesson="1", language="en", answer="7").json
    assert (answer["is_right"], answer["right_answer"]) == (True, "7 partitions")
    assert kept(state_folder)["one-consumer-seven-partitions"] == {"question": "right"}
    assert served.get("/lessons").json["lessons"][0]["question"] == "right"
    later = served.post("/lesson/answer", lesson="1", language="zh", answer="6").json
    assert later["is_right"] is False
    assert kept(state_folder)["one-consumer-seven-partitions"] == {"question": "right"}


def test_every_explained_moment_has_its_place_in_the_recorded_run(served: ServedPage, state_folder: Path) -> None:
    answer = served.post("/lesson/answer", lesson="9", language="en", answer=None).json
    assert answer["is_right"] is None
    assert answer["explanation"], "a skipped question is explained too"
    assert kept(state_folder)["timeouts"] == {"question": "skipped"}
    position, positions = 0, set()
    for difference in answer["document"]["moments"]["position"]:
        position += difference
        positions.add(position)
    explained = [line for line in answer["replay"] if line["note"]]
    assert len(explained) == 4
    assert {line["position"] for line in explained} <= positions
    began_at = answer["document"]["began"][1]
    times, at = [], 0
    for difference in answer["document"]["moments"]["at"]:
        at += difference
        times.append(at)
    left = next(line for line in explained if "poll timeout" in line["text"])
    assert began_at + left["at_ms"] in times


def test_a_task_is_run_wrong_and_right(served: ServedPage, state_folder: Path) -> None:
    name = served.get("/lesson?lesson=1").json["task"]["settings"][0]["name"]
    wrong = served.post("/lesson/task", lesson="1", language="en", values={name: "7"}).json
    assert wrong["is_solved"] is False
    assert any(not each["holds"] and each["because"] for each in wrong["conditions"])
    right = served.post("/lesson/task", lesson="1", language="en", values={name: "9"}).json
    assert right["is_solved"] is True
    assert right["done"]
    assert kept(state_folder)["one-consumer-seven-partitions"]["task_solved"] is True  # type: ignore[index]


@pytest.mark.slow
def test_runs_at_the_same_time_are_refused_but_one(served: ServedPage) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: served.post("/lesson/answer", lesson="9", answer=None), range(4)))
    assert {answer.status for answer in answers} == {200, 429}
    assert "try again in a moment" in next(each for each in answers if each.status == 429).json["error"]


def test_a_solution_is_shown_when_it_is_asked_for(served: ServedPage) -> None:
    assert served.get("/lesson/solution?lesson=1").json == {"lines": ["partitions: 9"]}


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/lesson/answer", {"lesson": "1", "answer": 7}, "Expected `str | null`, got `int`"),
        ("/lesson/answer", {"lesson": "1"}, "missing required field `answer`"),
        ("/lesson/answer", {"lesson": "1", "answer": "7", "language": "xx"}, "unknown language: 'xx'"),
        ("/lesson/task", {"lesson": "1", "values": {"code": "x"}}, "unknown setting 'code'"),
        ("/lesson/task", {"lesson": "8", "values": {}}, "the task of this lesson is an assignor"),
        ("/lesson/assignor", {"lesson": "1"}, "the task of this lesson has settings"),
        ("/lesson/assignor", {"lesson": "8"}, "regroup lesson 8 --page --assignor FILE"),
        ("/lesson/assignor", {"lesson": "8", "code": "def assign(): ..."}, "unknown field `code`"),
    ],
)
def test_input_that_a_lesson_cannot_take_is_answered_with_a_sentence(
    served: ServedPage, path: str, body: dict[str, object], sentence: str
) -> None:
    answer = served.post(path, **body)
    assert answer.status == 400
    assert sentence in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "body", "hint"),
    [
        ("/lesson/answer", {"lesson": "1", "answer": "many"}, "Please answer with a number."),
        ("/lesson/answer", {"lesson": "1", "answer": "", "language": "zh"}, "请回答一个数字。"),
        ("/lesson/answer", {"lesson": "9", "answer": "17"}, "Please answer with the number of an option."),
        ("/lesson/answer", {"lesson": "1", "answer": "<img src=x>\x00" * 50}, "Please answer with a number."),
        ("/lesson/task", {"lesson": "1", "values": {"partitions": "-3"}}, "partitions: a whole number"),
        ("/lesson/task", {"lesson": "1", "values": {}}, "partitions: a whole number"),
    ],
)
def test_a_slip_of_a_learner_is_answered_with_the_form_that_is_expected(
    served: ServedPage, state_folder: Path, path: str, body: dict[str, object], hint: str
) -> None:
    before = kept(state_folder)
    answer = served.post(path, **body)
    assert answer.status == 200, "a browser shows any other status as an error in its console"
    assert list(answer.json) == ["unreadable"]
    assert hint in answer.json["unreadable"]
    assert kept(state_folder) == before


def test_bodies_are_bounded_and_have_to_be_json(served: ServedPage) -> None:
    assert served.post("/lesson/answer", lesson="1", answer="7" * 20_000).status == 413
    assert served.get("/lesson/answer", "POST", b"{}", content_type="text/plain").status == 415
    assert served.get("/lesson/answer", "POST", b"{", content_type="application/json").status == 400


@pytest.mark.parametrize(
    ("path", "status"), [("/lesson?lesson=99", 404), ("/lesson?lesson=own", 404), ("/x", 404), ("/lesson/task", 405)]
)
def test_what_is_not_there_is_refused(served: ServedPage, path: str, status: int) -> None:
    answer = served.get(path)
    assert answer.status == status
    assert answer.json["error"]


@pytest.mark.parametrize("path", ["/", "/lessons", "/lesson?lesson=1", "/page/lesson.js", "/unknown"])
def test_every_path_checks_host_and_origin(served: ServedPage, path: str) -> None:
    assert served.get(path, host="evil.example").status == 403
    assert served.get(path, origin="http://evil.example").status == 403
    assert served.get(path, sec_fetch_site="cross-site").status == 403
    assert all(name in served.get(path).headers for name in HEADERS)


def test_a_foreign_page_cannot_run_a_task(served: ServedPage) -> None:
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
        answer = served.get("/lesson/task", "POST", b"{}", content_type="application/json", **headers)
        assert answer.status == 403


@pytest.mark.slow
def test_the_assignor_is_the_file_of_the_command_line(state_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def assign(partitions, members):\n    print('hello')\n    return {}\n", encoding="utf-8")
    with served_page("lessons", "lesson", 8, "--assignor", file, "--page") as lessons:
        assert lessons.get("/lesson?lesson=8").json["assignor"] == str(file)
        wrong = lessons.post("/lesson/assignor", lesson="8").json
        assert wrong["is_solved"] is False
        assert wrong["printed"].startswith("hello")
        file.write_text(IN_TURN, encoding="utf-8")
        assert lessons.post("/lesson/assignor", lesson="8").json["is_solved"] is True
        file.unlink()
        gone = lessons.post("/lesson/assignor", lesson="8")
        assert gone.status == 409
        assert "mine.py cannot be read" in gone.json["error"]


@pytest.mark.slow
def test_a_lesson_of_ones_own_is_listed_last_and_taken(state_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL, encoding="utf-8")
    with served_page("lessons", "lesson", file, "--page") as lessons:
        assert lessons.address.endswith("/?lesson=own")
        assert lessons.get("/lessons").json["lessons"][-1]["number"] == "own"
        assert lessons.post("/lesson/answer", lesson="own", answer="4").json["is_right"] is True
        assert lessons.post("/lesson/task", lesson="own", values={"timeout": "8s"}).json["is_solved"] is True
    assert kept(state_folder)["own/small"] == {"question": "right", "task_solved": True}


@pytest.mark.parametrize("words", [("8", "--assignor", "x.py"), ("1", "--port", "0")])
def test_options_of_the_page_need_it(run_command: RunCommand, words: tuple[str, ...]) -> None:
    result = run_command("lesson", *words)
    assert result.code == 2
    assert f"{words[1]} needs --page" in result.err


@pytest.mark.parametrize("words", [("check", "x.yaml"), ("99",)])
def test_what_cannot_be_served_is_refused(run_command: RunCommand, words: tuple[str, ...]) -> None:
    assert run_command("lesson", *words, "--page").code == 2
