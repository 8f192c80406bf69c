"""The replay of a run: the sentences of its story, what the scenario did, and the notes of the lesson beside them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from regroup.classroom.languages import Language
from regroup.classroom.lessons.chinese import chinese_step
from regroup.classroom.lessons.format.language import filled_in, in_language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.questions import text_values
from regroup.classroom.lessons.runs.moments import (
    ASSIGNED,
    FAULT_BEGAN,
    FAULT_ENDED,
    LOST,
    REFUSED,
    REVOKED,
    STEP,
    RunMoment,
    find_explained,
    run_moments,
)
from regroup.classroom.lessons.runs.reading_times import reading_times
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.phrases.phrase import in_language as phrase_in_language
from regroup.classroom.phrases.phrase import phrase, series
from regroup.classroom.sentences import sentence_of
from regroup.classroom.story import StoryLine, story_lines
from regroup.classroom.wording import MemberNames, partitions_text, partitions_value, since_text
from regroup.protocol.consumer.subscription import TopicPartition


class ReplayLine(NamedTuple):
    """One line of a replay."""

    at_ms: int
    """Since the start of the run."""
    text: str
    position: int
    """Of the event in the store, or of the last one before; a picture of the timeline shows this place."""
    note: str = ""
    """What the lesson says about it."""
    is_step: bool = False
    """The scenario did it."""


def replay_lines(lesson: Lesson, run: LessonRun, language: Language) -> list[ReplayLine]:
    """The lines of the replay in order of time, with each note at its moment; last, how each group ends."""
    groups = [run, *([run.of_group(lesson.parts.beside)] if lesson.parts.beside else [])]
    lines: list[ReplayLine] = []
    ends: list[ReplayLine] = []
    for each in groups:
        notes = notes_of(lesson, run, language, "" if each is run else lesson.parts.beside)
        *story, end = story_lines(each.timeline, language=language)
        said: Iterable[ReplayLine] = chain(_group_lines(each, story, notes, language), _shared_readings(each, language))
        ends.append(ReplayLine(0, end.text, end.position))
        if each is not run:
            said, ends[-1] = (
                map(partial(_beside, run, lesson.parts.beside), said),
                _beside(run, lesson.parts.beside, ends[-1]),
            )
        lines += said
    lines.sort(key=lambda line: line.at_ms)
    return [*lines, *(each._replace(at_ms=lines[-1].at_ms) for each in ends)]


def _group_lines(
    run: LessonRun, story: Iterable[StoryLine], notes: Mapping[int, str], language: Language
) -> Iterator[ReplayLine]:
    """Yield the lines about one group: sentences of events, steps of the scenario, and other moments that have a note.

    `story` has the sentences, without that about the end; `notes` are by the index of the moment.
    """
    sentences = _by_position(story)
    for moment in run_moments(run):
        note = notes.get(moment.index, "")
        if moment.event is not None:
            texts = sentences.pop(moment.position, [])
            if not texts and note:
                texts = [event_text(moment, run, language)]
            for number, text in enumerate(texts):
                yield ReplayLine(moment.at_ms, text, moment.position, note if number == 0 else "")
        elif moment.name == STEP or note:
            yield ReplayLine(moment.at_ms, other_text(moment, language), moment.position, note, moment.name == STEP)


def _shared_readings(run: LessonRun, language: Language) -> Iterator[ReplayLine]:
    """Yield a line for each time during which several running members believed that they owned a partition."""
    alike: dict[tuple[int, int, frozenset[str]], list[TopicPartition]] = defaultdict(list)
    for each in reading_times(run):
        if len(each.readers) > 1 and each.ended_ms > each.began_ms:
            alike[each.began_ms, each.ended_ms, each.readers].append(each.partition)
    for (began_ms, ended_ms, readers), partitions in alike.items():
        said = phrase(
            "two believed" if len(readers) == 2 else "several believed",
            members=series("names", sorted(readers)),
            partitions=partitions_value(partitions),
            until=phrase("until the end") if ended_ms == run.ended_ms else phrase("until", time=since_text(ended_ms)),
        )
        position = run.timeline.position_at(run.epoch_ms(began_ms))
        yield ReplayLine(began_ms, phrase_in_language(said, language), position)


def _beside(run: LessonRun, group: str, line: ReplayLine) -> ReplayLine:
    """A line about the lesson's second group with the group's name before it.

    Its position becomes that of the shown group's last event before this time, to mark the place in pictures.
    """
    text = line.text if line.is_step else f"{group}: {line.text}"
    return line._replace(text=text, position=run.timeline.position_at(run.epoch_ms(line.at_ms)))


def notes_of(lesson: Lesson, run: LessonRun, language: Language, beside: str = "") -> dict[int, str]:
    """The notes of a lesson by the index of their moment; several notes of one moment are joined.

    They are those about the group `beside`, or, if it is empty, about the group that is shown.
    """
    values, notes = text_values(lesson, run, language), dict[int, str]()
    for explained in lesson.parts.moments:
        if explained.group != beside:
            continue
        moment = find_explained(run, explained)
        if moment is not None:
            note = filled_in(in_language(explained.note, language), values)
            notes[moment.index] = "\n\n".join(filter(None, (notes.get(moment.index), note)))
    return notes


def _by_position(story: Iterable[StoryLine]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for line in story:
        found[line.position].append(line.text)
    return found


def event_text(moment: RunMoment, run: LessonRun, language: Language) -> str:
    """The sentence of an event, also of one that a story leaves out; the event's type if it has no sentence."""
    assert moment.event is not None
    names = MemberNames(run.timeline.names_of_ids)
    texts = EVENT_TEXTS.get(moment.name, (moment.name, moment.name))
    text = texts[0 if language is Language.ENGLISH else 1]
    return sentence_of(moment.event, names, language) or text.format(member=moment.member)


def other_text(moment: RunMoment, language: Language) -> str:
    """A sentence about a moment that is no event of the group, such as a step of the scenario."""
    is_english = language is Language.ENGLISH
    template = FAULT_TEXTS.get((moment.name, moment.text), OTHER_TEXTS[moment.name])[0 if is_english else 1]
    is_translated = moment.name == STEP and not is_english
    return template.format(
        member=moment.member,
        partitions=partitions_text(moment.partitions),
        api=moment.api,
        error=moment.error,
        text=chinese_step(moment.text) if is_translated else moment.text,
    )


EVENT_TEXTS: Final = {
    "pending-member-added": (
        "{member} received a member id (MEMBER_ID_REQUIRED), with which it has to send JoinGroup again.",
        "{member} 得到一个 member id（MEMBER_ID_REQUIRED），要用它再发一次 JoinGroup。",
    ),
    "offsets-committed": ("{member} committed offsets.", "{member} 提交了 offset。"),
    "offsets-written": ("Offsets of {member} were written to the log.", "{member} 的 offset 已写入日志。"),
    "group-metadata-written": ("The group was written to __consumer_offsets.", "group 写入了 __consumer_offsets。"),
}
"""Events that have no sentence in a story, in English and in Chinese."""
OTHER_TEXTS: Final = {
    STEP: ("The scenario: {text}.", "场景：{text}。"),
    REFUSED: ("{api} of {member} was refused with {error}.", "{member} 的 {api} 被拒绝：{error}。"),
    ASSIGNED: ("{member} was assigned {partitions}.", "{member} 获得 {partitions}。"),
    REVOKED: ("{member} gave {partitions} up.", "{member} 交出 {partitions}。"),
    LOST: ("{member} learned that it is no member any more, and gave {partitions} up.",
           "{member} 得知自己已不是成员，放弃 {partitions}。"),
    FAULT_BEGAN: ("A fault of {member} begins: {text}.", "{member} 开始出现故障：{text}。"),
    FAULT_ENDED: ("{member} goes on: {text}.", "{member} 继续运行：{text}。"),
}  # fmt: skip
"""Moments that are no events, in English and in Chinese."""


FAULT_TEXTS: Final = {
    (FAULT_BEGAN, "pause"): ("{member} stands still.", "{member} 开始停顿。"),
    (FAULT_BEGAN, "zombie"): ("{member} stands still.", "{member} 开始停顿。"),
    (FAULT_ENDED, "paused"): ("{member} goes on after the pause.", "{member} 停顿结束，继续运行。"),
}
"""Faults and ends of faults for which there is a better sentence."""


def unexplained(lesson: Lesson, run: LessonRun) -> Iterator[int]:
    """Yield the indexes, in the lesson's list, of the moments with notes that its run does not have."""
    for index, explained in enumerate(lesson.parts.moments):
        if find_explained(run, explained) is None:
            yield index
