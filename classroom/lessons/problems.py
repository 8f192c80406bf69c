"""What other parts say in English about settings and assignors that cannot be, in Chinese for the learner."""

import re
from collections.abc import Sequence
from typing import Final

from regroup.classroom.languages import Language

SETTING_PROBLEMS: Final = (
    (
        r"heartbeat interval \((.+?)\) must be below session timeout \((.+?)\)",
        r"heartbeat interval（\1）必须小于 session timeout（\2）",
    ),
    (r"a lesson may have at most (\S+) (.+), not (\S+)", r"课程里最多有 \1（\2），而不是 \3"),
    (r"the (.+) of (\S+) must be at least (\S+) in a lesson", r"课程里 \2 的 \1 不得小于 \3"),
    (r"the run was ended, because it takes too long: .*", "运行时间太长，已中止"),
)
"""Messages about the settings of a run, and their translations."""
ASSIGNOR_PROBLEMS: Final = (
    (r"assignor \S+ left out member (\S+)", r"结果里缺少成员 \1"),
    (r"assignor \S+ assigned partitions to (\S+), which is not a member", r"结果把 partition 分给了 \1，而它不是成员"),
    (
        r"assignor \S+ assigned member (\S+) partition (\S+) of topic (\S+), .*not subscribed.*",
        r"结果把 \3-\2 分给了 \1，而它没有订阅 \3",
    ),
    (
        r"assignor \S+ assigned member (\S+) partition (\S+) of topic (\S+), which member (\S+) has already",
        r"结果把 \3-\2 分给了 \1，而它已经分给 \4",
    ),
    (
        r"assignor \S+ assigned member (\S+) partition (\S+) of topic (\S+), which does not exist.*",
        r"结果把 \3-\2 分给了 \1，而这个 partition 不存在",
    ),
)
"""What is wrong with the result of an assignor."""


def problem_text(error: Exception, language: Language) -> str:
    """The message of an error for which a task could not be run, in this language if a translation exists."""
    return str(error) if language is Language.ENGLISH else in_chinese(str(error), SETTING_PROBLEMS)


def in_chinese(text: str, translations: Sequence[tuple[str, str]]) -> str:
    """The Chinese translation of an English message, by the first pattern in `translations` that matches part of it.

    A message that matches none stays English.
    """
    for pattern, translation in translations:
        if match := re.search(pattern, text, re.DOTALL):
            return match.expand(translation)
    return text
