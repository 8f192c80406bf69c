"""Emulators with two topics, and a commit of several partitions."""

from collections.abc import Callable

import pytest

from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.testing import Emulator

StartEmulator = Callable[..., Emulator]


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 3, "bills": 1})


def commit_of(**partitions: dict[int, int]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="offline",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in partitions.items()
        ],
    )
