"""What can go wrong when a learner's assignor is called, in English and in Chinese."""

from typing import Final

from regroup.classroom.languages import Language
from regroup.classroom.lessons.problems import ASSIGNOR_PROBLEMS, in_chinese


class AssignorFailure(Exception):
    """A learner's assignor gave no result: it raised an error, took too long, or returned nonsense.

    `kind` is one of `FAILURES`, `detail` what can be added: a traceback, or the value.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail

    def text(self, language: Language) -> str:
        """The message for the learner."""
        template = FAILURES[self.kind][0 if language is Language.ENGLISH else 1]
        detail = self.detail if language is Language.ENGLISH else in_chinese(self.detail, ASSIGNOR_PROBLEMS)
        return template.format(detail=detail).strip()


FAILURES: Final[dict[str, tuple[str, str]]] = {
    "too long": (
        "assign() did not return within {detail}. Look for a loop that does not end.",
        "assign() 在 {detail} 内没有返回。请检查有没有不会结束的循环。",
    ),
    "too much output": (
        "the assignor printed more than {detail}. Print less.",
        "assignor 输出超过 {detail}。请少输出一些。",
    ),
    "too much memory": (
        "the assignor took more memory than {detail}.",
        "assignor 使用的内存超过 {detail}。",
    ),
    "result too large": (
        "assign() returned more than {detail}.",
        "assign() 返回的内容超过 {detail}。",
    ),
    "refused": (
        "the assignor tried to {detail}, which an assignor of a lesson may not: it only computes.",
        "assignor 试图做不允许的事（{detail}）：课程里的 assignor 只做计算。",
    ),
    "raised": ("assign() raised an error:\n{detail}", "assign() 抛出了异常：\n{detail}"),
    "cannot be loaded": (
        "the file cannot be loaded:\n{detail}",
        "文件无法加载：\n{detail}",
    ),
    "no function": (
        "the file has no function assign(partitions, members).",
        "文件里没有函数 assign(partitions, members)。",
    ),
    "nonsense": (
        'assign() must return a dict such as {{"anna": [("orders", 0)]}}; it returned {detail}',
        'assign() 必须返回字典，例如 {{"anna": [("orders", 0)]}}；它返回的是 {detail}',
    ),
    "impossible": ("in the live group: {detail}.", "在真实运行的 group 里：{detail}。"),
    "ended": (
        "the process of the assignor ended before it had a result ({detail}).",
        "assignor 的进程没有给出结果就结束了（{detail}）。",
    ),
}
"""What can go wrong with a learner's assignor, in English and in Chinese."""
