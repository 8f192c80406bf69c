"""The progress of a learner: what counts, and what happens to a file that is damaged or half written."""

from pathlib import Path

import pytest

from regroup.classroom.lessons.progress import (
    MAX_PROGRESS_BYTES,
    Answered,
    Progress,
    ProgressDamaged,
    load_progress,
    save_progress,
)


def test_the_first_answer_counts_and_a_solved_task_stays_solved() -> None:
    progress = Progress().with_answer("one", Answered.WRONG).with_answer("one", Answered.RIGHT).with_solved_task("two")
    assert progress.of("one").question is Answered.WRONG
    assert progress.with_answer("two", Answered.RIGHT).of("two").task_solved
    assert progress.of("three") == Progress().of("three")


def test_an_answer_after_a_skipped_question_does_not_count() -> None:
    progress = Progress().with_answer("one", Answered.of(None)).with_answer("one", Answered.of(True))
    assert progress.of("one").question is Answered.SKIPPED


def test_saved_progress_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "regroup" / "lessons.json"
    assert load_progress(path) == Progress()
    saved = Progress().with_answer("one", Answered.RIGHT)
    save_progress(path, saved)
    save_progress(path, saved.with_solved_task("one"))
    assert load_progress(path) == saved.with_solved_task("one")
    assert [each.name for each in path.parent.iterdir()] == ["lessons.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 2}',
        b'{"lessons": {"one": {"question": "maybe"}}}',
        b"\xff\xfe",
        b" " * (MAX_PROGRESS_BYTES + 1),
        b"[" * 100_000,
    ],
    ids=["empty", "half", "list", "later version", "other value", "not UTF-8", "large", "deep"],
)
def test_a_damaged_file_is_named_and_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lessons.json"
    for number in ("", "-2", "-3"):
        path.write_bytes(content)
        with pytest.raises(ProgressDamaged) as caught:
            load_progress(path)
        assert str(path) in str(caught.value)
        aside = tmp_path / f"lessons.json.damaged{number}"
        assert aside.name in str(caught.value)
        assert aside.read_bytes() == content
        assert load_progress(path) == Progress()


def test_a_write_that_fails_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lessons.json"
    save_progress(path, Progress().with_solved_task("one"))

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        save_progress(path, Progress())
    assert load_progress(path).of("one").task_solved
    assert [each.name for each in tmp_path.iterdir()] == ["lessons.json"]
