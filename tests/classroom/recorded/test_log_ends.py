"""Where logs ended by what their leaders answered, and which records were read again."""

import asyncio
from collections.abc import Iterable

import pytest

from regroup.classroom.live.recordings import LiveRecordings
from regroup.classroom.reading import read_events
from regroup.classroom.recorded import log_ends
from regroup.classroom.recorded.log_ends import LogEndsBuilder
from regroup.classroom.recorded_values import LogEnd
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.frames import encode_response
from regroup.protocol.message import Message
from regroup.protocol.messages.records import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    PartitionData,
    ProduceRequest,
)
from regroup.protocol.topic_ids import topic_id_text
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import ObservationsBegan, ReadAgainObserved
from regroup.server.recording.reading import read_exchanges
from tests.classroom.recorded.recordings import CONNECTION, observations, recorded_run, timeline
from tests.server.recording.frames import HOST, frame

TOPIC_ID = bytes(range(16))
ORDERS = [TopicPartition("orders", index) for index in range(3)]
RUN = "partition-of-one-member"


def row_of(request: Message, response: Message, version: int, *, number: int = 1, at_ms: int = 1_000) -> ExchangeRow:
    sent = frame(request, version, number)
    answer = bytes(encode_response(request.api_key, version, number, response)[4:])
    return ExchangeRow(
        number, CONNECTION, HOST, at_ms, at_ms, sent, len(sent), ended_at_ms=at_ms, response=answer, response_bytes=1
    )


def fetched(version: int, *offsets: int, error_code: int = 0) -> ExchangeRow:
    """A Fetch whose response has a partition for each of these high watermarks, each with 100 bytes of records."""
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "orders"}
    partitions = [
        PartitionData(
            partition_index=index,
            error_code=error_code,
            high_watermark=offset,
            aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)],
            records=b"r" * 100,
        )
        for index, offset in enumerate(offsets)
    ]
    response = FetchResponse(responses=[FetchableTopicResponse(**named, partitions=partitions)])
    return row_of(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), response, version)


def ends_of(rows: Iterable[ExchangeRow]) -> dict[TopicPartition, tuple[LogEnd, ...]]:
    builder = LogEndsBuilder()
    for row in rows:
        builder.on_row(row)
    return builder.of_topics({topic_id_text(TOPIC_ID): "orders"})


@pytest.mark.parametrize("version", range(4, FetchRequest.versions.last + 1))
def test_a_fetch_response_says_where_logs_end_up_to_where_it_was_cut(version: int) -> None:
    row = fetched(version, 10, 20, 30)
    whole = row.response
    assert ends_of([row]) == {each: (LogEnd(1_000, offset),) for each, offset in zip(ORDERS, (10, 20, 30), strict=True)}
    counts = []
    for length in range(len(whole)):
        row.response = whole[:length]
        found = ends_of([row])
        assert found == {each: (LogEnd(1_000, 10 * (each.partition + 1)),) for each in ORDERS[: len(found)]}
        counts.append(len(found))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


@pytest.mark.parametrize("version", [4, 11, 12, FetchRequest.versions.last])
def test_a_damaged_response_is_read_in_no_time_and_without_an_error(version: int) -> None:
    row = fetched(version, 10, 20, 30)
    whole = row.response
    for place in range(len(whole) - 3):
        row.response = whole[:place] + b"\x7f\xff\xff\xff" + whole[place + 4 :]
        ends_of([row])


def test_a_partition_with_an_error_says_nothing() -> None:
    assert ends_of([fetched(11, 10, error_code=6)]) == {}


@pytest.mark.parametrize(("timestamp", "isolation_level", "is_end"), [(-1, 0, True), (-2, 0, False), (-1, 1, False)])
def test_only_the_end_of_the_log_that_was_asked_for_counts(timestamp: int, isolation_level: int, is_end: bool) -> None:
    asked = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answered = ListOffsetsTopicResponse(
        name="orders", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=42)]
    )
    row = row_of(
        ListOffsetsRequest(isolation_level=isolation_level, topics=[asked]),
        ListOffsetsResponse(topics=[answered]),
        5,
    )
    assert ends_of([row]) == ({ORDERS[0]: (LogEnd(1_000, 42),)} if is_end else {})


def test_a_response_may_come_in_a_later_block_than_its_request() -> None:
    row = fetched(11, 10)
    asked = ExchangeRow(1, CONNECTION, HOST, 1_000, 1_000, row.request, len(row.request))
    row.request = b""
    assert ends_of([asked, row]) == {ORDERS[0]: (LogEnd(1_000, 10),)}
    assert ends_of([row]) == {}


def test_of_many_ends_some_are_kept_and_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "MAX_ENDS", 10)
    rows = [fetched(11, offset) for offset in range(100)]
    for number, row in enumerate(rows):
        row.number, row.ended_at_ms = number, 1_000 + number
    (ends,) = ends_of(rows).values()
    assert len(ends) <= 10
    assert ends[-1] == LogEnd(1_099, 99)
    assert list(ends) == [LogEnd(1_000 + each.offset, each.offset) for each in ends]


def test_producers_and_consumers_are_told_the_same_ends() -> None:
    rows = [each.row for each in asyncio.run(read_exchanges(recorded_run(RUN)))]
    produced, read = (
        ends_of(row for row in rows if row.request[:2] == each.api_key.to_bytes(2, "big"))
        for each in (ProduceRequest, FetchRequest)
    )
    assert len(produced) == 6
    for partition, ends in read.items():
        known = {end.offset for end in produced[partition]} | {0}
        assert {end.offset for end in ends} <= known


def test_no_commit_lies_behind_the_end_of_its_log() -> None:
    shown = timeline(RUN)
    assert shown.log_ends.keys() == shown.offsets.keys()
    for partition, steps in shown.offsets.items():
        for step in steps:
            known = [end.offset for end in shown.log_ends[partition] if end.at_ms <= step.began.at_ms]
            assert step.offset is not None
            assert step.offset <= known[-1]


def test_a_page_that_follows_a_run_knows_the_same_ends() -> None:
    store = recorded_run(RUN)
    rows = [each.row for each in asyncio.run(read_exchanges(store))]
    bare = asyncio.run(read_events(store, ["lab"]))["lab"]
    recordings = LiveRecordings("lab")
    for count in (50, 50, len(rows)):
        recordings.take(rows[:count], ())
    assert recordings.added_to(bare).log_ends == timeline(RUN).log_ends


@pytest.mark.parametrize("name", [RUN, "zombie-commits-after-removal", "power-fails"])
def test_the_records_that_were_read_again_are_those_that_the_run_has_counted(name: str) -> None:
    shown = timeline(name)
    assert shown.recorded.reads
    counted = play(scenario(name)).verdict.counts.processed_twice
    assert sum(read.record_count for reads in shown.repeated_reads.values() for read in reads) == counted


def test_an_observation_of_a_run_before_reads_were_observed_says_so() -> None:
    began = next(each for each in observations(recorded_run(RUN)) if isinstance(each, ObservationsBegan))
    assert began.has_reads
    assert not ObservationsBegan(1, 1, 1.0, 1.0).has_reads
    again = [each for each in observations(recorded_run(RUN)) if isinstance(each, ReadAgainObserved)]
    assert {each.client for each in again} <= {"anna", "ben", "carla"}
