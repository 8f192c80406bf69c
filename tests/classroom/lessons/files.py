"""A small lesson as text, with parts that tests replace."""

from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.format.reading import read_lesson

SMALL = """\
lesson: small
title: {en: Small, zh: 小}
text: One consumer.
scenario:
  scenario: ben crashes
  seed: 7
  topics: {orders: 4}
  members:
    anna: {session timeout: 10s}
    ben: {session timeout: 10s}
  steps:
    - at 0s: [anna joins, ben joins]
    - at 20s: ben crashes
  faults end at: 40s
values:
  after: {measure: time between, of: {moment: step, says: ben crashes}, to: {moment: member-removed}}
question:
  ask: How many partitions has anna at the end?
  measure: {measure: number of partitions, member: anna}
  unit: {en: partitions, zh: 个}
  explain: It is {answer}, {after} later.
moments:
  - {moment: member-removed, member: ben, note: 'After {after}.'}
task:
  ask: Choose a timeout.
  settings:
    timeout: {type: duration, least: 6s, most: 5m}
  change:
    members:
      anna: {session timeout: <timeout>}
      ben: {session timeout: <timeout>}
  conditions:
    - {measure: unread, at most: 15s, because: 'It took {found}.'}
  right: [{timeout: 8s}]
  wrong: [{timeout: 45s}]
  done: Good.
"""


def small_lesson(*changes: tuple[str, str]) -> Lesson:
    """The small lesson with parts of its text replaced; each must be in it."""
    return read_lesson(small_text(*changes))


def small_text(*changes: tuple[str, str]) -> str:
    text = SMALL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text
