"""Every lesson that comes with regroup is sound in both languages, and its answers and examples are what they claim."""

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.checking import lesson_problems, lesson_texts
from regroup.classroom.lessons.document import (
    answer_document,
    answer_lesson,
    lesson_document,
    list_document,
    run_lesson,
    solve_lesson,
    task_document,
)
from regroup.classroom.lessons.format.language import Translations, in_language, names_in
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.library import lesson, lesson_numbers, lesson_sources
from regroup.classroom.lessons.progress import Answered, Progress
from regroup.classroom.lessons.questions import check_answer, question_kind, right_answer_text, right_options
from regroup.classroom.lessons.replay import replay_lines
from regroup.classroom.lessons.runs.run import MAX_CALLBACKS, LessonRun
from regroup.classroom.lessons.tasks import run_task
from regroup.cli.classroom.lesson.assignor_process import example_problems
from regroup.protocol.java_order import java_string_hash

LANGUAGES = tuple(Language)
CHINESE = re.compile(r"[\u4e00-\u9fff]")
every_lesson = pytest.mark.parametrize("number", [pytest.param(each, id=f"lesson-{each}") for each in lesson_numbers()])
both_languages = pytest.mark.parametrize("language", LANGUAGES, ids=[each.value for each in LANGUAGES])
a_few_are_quick = pytest.mark.quick("lesson-1-", "lesson-1]", "lesson-5-", "lesson-5]")


def right_answer(taken: Lesson, run: LessonRun, language: Language) -> str:
    """What a learner types who is right."""
    if taken.parts.question.options:
        return str(right_options(taken.parts.question, run)[0] + 1)
    return right_answer_text(taken, run, language)


def wrong_answer(taken: Lesson, run: LessonRun) -> str:
    """What a learner types who is wrong."""
    question = taken.parts.question
    if question.options:
        right = right_options(question, run)
        return str(next(index + 1 for index in range(len(question.options)) if index not in right))
    kinds = {"number": "987654", "duration": "47h", "names": "none", "partitions": "none", "word": "neither"}
    wrong = kinds[question_kind(question)]
    if right_answer_text(taken, run, Language.ENGLISH) == wrong:
        return ", ".join(run.plan.members)
    return wrong


def test_the_lessons_are_numbered_from_1_without_a_gap_and_their_ids_are_their_files_names() -> None:
    assert lesson_numbers() == tuple(range(1, len(lesson_numbers()) + 1))
    for source in lesson_sources():
        assert lesson(source.number).id == source.name == lesson(source.name).id


@every_lesson
@pytest.mark.quick("lesson-1]", "lesson-5]")
def test_a_lesson_is_sound(number: int) -> None:
    assert lesson_problems(lesson(number)) == []
    assert list(example_problems(lesson(number))) == []


@every_lesson
def test_every_text_is_written_in_both_languages(number: int) -> None:
    for path, text in lesson_texts(lesson(number)):
        assert isinstance(text, Translations), f"{path} is in one language only"
        english, chinese = in_language(text, Language.ENGLISH), in_language(text, Language.CHINESE)
        assert text.en.strip(), path
        assert text.zh.strip(), path
        assert not CHINESE.search(english), path
        if path.endswith(("text", "ask", "explain", "note", "done", "title")):
            assert CHINESE.search(chinese), path
        assert sorted(set(names_in(text.en))) == sorted(set(names_in(text.zh))), f"{path} has other values in Chinese"


@every_lesson
@both_languages
@a_few_are_quick
def test_right_and_wrong_answers_are_told_apart(number: int, language: Language) -> None:
    taken = lesson(number)
    run = run_lesson(taken)
    right = check_answer(taken, run, right_answer(taken, run, language), language)
    wrong = check_answer(taken, run, wrong_answer(taken, run), language)
    assert right.is_right
    assert not wrong.is_right
    assert right.right_answer == wrong.right_answer != ""
    assert right.explanation
    for text in (right.explanation, right.because, wrong.because):
        assert not re.search(r"\{[a-z]", text), text


@every_lesson
@both_languages
@a_few_are_quick
def test_every_note_stands_in_the_replay(number: int, language: Language) -> None:
    taken = lesson(number)
    lines = replay_lines(taken, run_lesson(taken), language)
    noted = "\n\n".join(line.note for line in lines if line.note).split("\n\n")
    for moment in taken.parts.moments:
        first_words = re.split(r"\{", in_language(moment.note, language))[0].split("\n\n")[0]
        assert any(first_words.strip() in note for note in noted), first_words
    assert [line.at_ms for line in lines] == sorted(line.at_ms for line in lines)
    assert all(line.text for line in lines)


@every_lesson
@both_languages
@a_few_are_quick
def test_right_and_wrong_settings_of_a_task_are_told_apart(number: int, language: Language) -> None:
    taken = lesson(number)
    task = taken.parts.task
    for examples, is_solved in ((task.right, True), (task.wrong, False)):
        for example in examples if task.settings else ():
            result = run_task(taken, {name: str(value) for name, value in example.items()}, language)
            assert result.is_solved is is_solved, (example, result)
            assert bool(result.done) is is_solved
            failed = [each for each in result.results if not each.holds]
            assert is_solved or result.problem or any(each.because for each in failed), f"{example} fails unexplained"


@every_lesson
@both_languages
@pytest.mark.quick("lesson-1-en", "lesson-1]")
def test_the_document_of_a_lesson_gives_nothing_away(number: int, language: Language) -> None:

    taken = lesson(number)
    run = run_lesson(taken)
    before = json.dumps(lesson_document(taken, language), ensure_ascii=False)
    after = answer_document(taken, run, right_answer(taken, run, language), language)
    for text in (after["explanation"], in_language(taken.parts.task.done, language)):
        assert text.split("\n")[0] not in before
    assert after["is_right"]
    json.dumps(after, ensure_ascii=False)
    if taken.parts.task.settings:
        values = {name: str(value) for name, value in taken.parts.task.right[0].items()}
        json.dumps(task_document(run_task(taken, values, language)), ensure_ascii=False)


@pytest.mark.slow
def test_answers_and_tasks_can_be_computed_in_another_process() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        answered = process.submit(answer_lesson, 3, "3", "zh").result()
        solved = process.submit(solve_lesson, "generations-and-the-leader", {"delay": "3000"}, "en").result()
        unreadable = process.submit(answer_lesson, 3, "many", "en").result()
    assert answered["is_right"]
    assert answered["replay"]
    assert solved["is_solved"]
    assert unreadable == {"unreadable": "many", "kind": "number"}


def test_the_list_has_every_lesson_with_what_was_done() -> None:
    progress = Progress().with_answer(lesson(1).id, Answered.WRONG).with_solved_task(lesson(2).id)
    listed = list_document(progress, Language.CHINESE)
    assert [each["number"] for each in listed] == list(lesson_numbers())
    assert [each["question"] for each in listed[:2]] == ["wrong", None]
    assert [each["task_solved"] for each in listed[:3]] == [False, True, False]
    assert CHINESE.search(listed[0]["title"])


def test_the_hash_that_the_second_lesson_names_is_that_of_its_group() -> None:
    text = lesson("the-coordinator").parts.text
    for language in Language:
        assert f" {java_string_hash('lab')}" in in_language(text, language)


@every_lesson
@pytest.mark.quick("lesson-1]")
def test_a_run_stays_far_below_the_bound_of_its_work(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.classroom.lessons.runs.run.MAX_CALLBACKS", MAX_CALLBACKS // 2)
    run_lesson(lesson(number))
