"""What `regroup lesson` says itself, in English and in Chinese."""

from typing import Final

from regroup.classroom.languages import Language
from regroup.classroom.lessons.runs.answers import AnswerKind

PHRASES: Final[dict[str, tuple[str, str]]] = {
    "lesson": ("Lesson {number}: {title}", "第 {number} 课：{title}"),
    "own lesson": ("Lesson: {title}", "课程：{title}"),
    "question": ("Question", "问题"),
    "replay": ("What happened, in time since the start", "回放（时间从启动算起）"),
    "task": ("Task", "任务"),
    "right": ("Right: {answer}.", "回答正确：{answer}。"),
    "wrong": ("Not so. The right answer: {answer}.", "不对。正确答案：{answer}。"),
    "skipped": ("Skipped. The right answer: {answer}.", "已跳过。正确答案：{answer}。"),
    "solved": ("Solved.", "任务完成。"),
    "not solved": ("Not solved yet.", "还没有完成。"),
    "next": ("(Enter goes on)", "（按 Enter 继续）"),
    "commands": ("skip: leave it; Ctrl-D: end", "skip：跳过；Ctrl-D：结束"),
    "task commands": (
        "show: a solution; skip: leave it; Ctrl-D: end",
        "show：看一个答案；skip：跳过；Ctrl-D：结束",
    ),
    "solution": ("One solution:", "一个可行的答案："),
    "file": ("file with your assign(partitions, members): ", "含有 assign(partitions, members) 的文件："),
    "file wanted": (
        "Please write the name of a Python file that has the function assign(partitions, members).",
        "请输入一个 Python 文件的名字，文件里要有函数 assign(partitions, members)。",
    ),
    "no file": ("{file} cannot be read: {why}", "无法读取 {file}：{why}"),
    "printed": ("The assignor printed:", "assignor 的输出："),
    "ended": ("Ended. What you have done is kept.", "已结束，进度已保存。"),
    "list": ("Lessons", "课程"),
    "list help": (
        "regroup lesson 1 begins the first one. ✓ right or solved, ✗ answered wrong, – skipped, · not yet.",
        "regroup lesson 1 开始第一课。✓ 答对或完成，✗ 答错，– 跳过，· 还没有做。",
    ),
    "columns": ("question task", "问题 任务"),
    "nothing left": ("That was the last lesson.", "这是最后一课。"),
    "go on": ("Next: regroup lesson {number}", "下一课：regroup lesson {number}"),
    "sound": ("{file}: the lesson is sound", "{file}：课程没有问题"),
    "picture": ("The same as a picture", "同样的过程，用图表示"),
}
HINTS: Final[dict[str, tuple[str, str]]] = {
    "choice": ("Please answer with the number of an option.", "请回答选项的编号。"),
    AnswerKind.NUMBER.value: ("Please answer with a number.", "请回答一个数字。"),
    AnswerKind.DURATION.value: (
        "Please answer with a time, such as 20s or 1.5s.",
        "请回答一个时长，例如 20s 或 1.5s。",
    ),
    AnswerKind.NAMES.value: (
        "Please answer with names of members ({names}), or none.",
        "请回答成员的名字（{names}），或者 none。",
    ),
    AnswerKind.PARTITIONS.value: (
        "Please answer with partitions, such as orders 0-2.",
        "请回答 partition，例如 orders 0-2。",
    ),
    AnswerKind.WORD.value: ("Please answer with a word.", "请回答一个词。"),
}


FILE_ERRORS: Final[dict[type[OSError], str]] = {
    FileNotFoundError: "文件不存在",
    IsADirectoryError: "这是一个目录",
    NotADirectoryError: "路径中有一部分不是目录",
    PermissionError: "没有读取权限",
}


def file_error(error: OSError, language: Language) -> str:
    """Why a file could not be read, in this language; errors without a translation in the operating system's words."""
    said = error.strerror or str(error)
    return said if language is Language.ENGLISH else FILE_ERRORS.get(type(error), said)


def phrase(name: str, language: Language, **values: object) -> str:
    """The text with this name in a language, with its values filled in."""
    return PHRASES[name][0 if language is Language.ENGLISH else 1].format(**values)


def answer_hint(kind: str, language: Language, names: str) -> str:
    """How to write an answer of this kind; `names` are the names that it may contain."""
    return HINTS[kind][0 if language is Language.ENGLISH else 1].format(names=names)
