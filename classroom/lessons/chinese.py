"""The steps of scenarios in Chinese, for the replays of lessons. Kafka's own terms stay English."""

import re
from typing import Final

STEPS: Final = (
    (r"(\S+) joins", r"\1 启动"),
    (r"(\S+) leaves", r"\1 正常关闭"),
    (r"(\S+) crashes", r"\1 崩溃"),
    (r"(\S+) pauses for (\S+)", r"\1 停顿 \2"),
    (r"(\S+) restarts after (\S+)", r"\1 重启，\2 后恢复"),
    (r"(\S+) restarts without its instance id after (\S+)", r"\1 重启，\2 后恢复，不再带 instance id"),
    (r"(\S+) requests a rebalance", r"\1 请求 rebalance"),
    (r"(\S+) becomes a zombie", r"\1 停顿，之后成为 zombie"),
    (r"(.+) is cut off from (.+) for (\S+)", r"\1 与 \2 之间断网 \3"),
    (r"broker (\d+) stops for (\S+)", r"broker \1 停止 \2"),
    (r"the brokers crash for (\S+)", r"所有 broker 崩溃，持续 \1"),
    (r"topic (\S+) grows to (\d+) partitions?", r"topic \1 增加到 \2 个 partition"),
    (r"topic (\S+) is created with (\d+) partitions?", r"创建 topic \1，\2 个 partition"),
    (r"topic (\S+) is deleted", r"删除 topic \1"),
    (r"(\S+)'s next (\S+) is lost", r"\1 的下一个 \2 请求丢失"),
    (r"the response to (\S+)'s next (\S+) is lost", r"\1 的下一个 \2 的响应丢失"),
)
"""Sentences of scenarios, and their translations. One that is not here stays as it is."""


def chinese_step(sentence: str) -> str:
    """The English sentence of a scenario's step in Chinese."""
    for pattern, translation in STEPS:
        if match := re.fullmatch(pattern, sentence):
            return match.expand(translation)
    return sentence
