"""The exchanges in memory: their bounds, runs of heartbeats, and any sequence through the blocks of a store."""

import asyncio
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.blocks import BlockEncoder
from regroup.server.recording.exchange import NOT_KEPT, RecordedExchange
from regroup.server.recording.reading import read_exchanges
from regroup.server.recording.recorder import MAX_FRAME_BYTES, MAX_RECORDS_FRAME_BYTES, ROW_BYTES, Recorder
from regroup.server.recording.selection import ExchangeFilter
from regroup.storage.memory import MemoryStore
from tests.server.recording.frames import HOST, Time, accepted, frame, heartbeat


def test_the_number_of_exchanges_is_bounded() -> None:
    recorder = Recorder(Time(), max_exchanges=3)
    for number in range(10):
        recorder.begin("0-1@1", HOST, heartbeat(number))
    assert [RecordedExchange(row).correlation_id for row in recorder.rows()] == [7, 8, 9]


def test_the_memory_is_bounded_also_by_late_responses() -> None:
    recorder = Recorder(Time(), max_bytes=10 * ROW_BYTES)
    rows = [recorder.begin("0-1@1", HOST, heartbeat(number)) for number in range(20)]
    assert len(recorder.rows()) < 10
    for row in rows:  # most of them are forgotten by now, and must not count
        recorder.answer(row, bytes(4) + bytes(ROW_BYTES), None)
    for number in range(20):
        recorder.begin("0-1@1", HOST, heartbeat(number))
    kept = sum(ROW_BYTES + len(row.request) + len(row.response) for row in recorder.rows())
    assert 5 * ROW_BYTES < kept <= 10 * ROW_BYTES


def test_long_frames_are_cut_and_keep_their_length_and_header() -> None:
    recorder = Recorder(Time())
    records = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=bytes(5_000))])
    produce = frame(ProduceRequest(acks=1, timeout_ms=1, topic_data=[records]), 9)
    long_heartbeat = heartbeat(member_id="a" * 30_000) + bytes(MAX_FRAME_BYTES)
    for each in (produce, long_heartbeat):
        recorder.answer(recorder.begin("0-1@1", HOST, each), bytes(4) + bytes(2 * MAX_FRAME_BYTES), None)
    exchanges = [RecordedExchange(row) for row in recorder.rows()]
    assert [len(each.row.request) for each in exchanges] == [MAX_RECORDS_FRAME_BYTES, MAX_FRAME_BYTES]
    assert [each.row.request_bytes for each in exchanges] == [len(produce), len(long_heartbeat)]
    assert [(each.api, each.client_id, each.request, each.answer) for each in exchanges] == [
        ("Produce", "anna", None, NOT_KEPT),
        ("Heartbeat", "anna", None, NOT_KEPT),
    ]


def test_heartbeats_of_a_run_are_equal_in_request_answer_and_fault() -> None:
    recorder, last = Recorder(Time()), None
    for correlation_id, error_code, fault in ((1, 0, ""), (2, 0, ""), (3, 27, ""), (4, 27, ""), (5, 27, "delay")):
        row = recorder.begin("0-1@1", HOST, heartbeat(correlation_id))
        if fault:
            recorder.note_fault(row, fault)
        last = recorder.answer(row, accepted(correlation_id, error_code), last)
    assert [(row.count, row.fault) for row in recorder.rows()] == [(2, ""), (2, ""), (1, "delay")]


def test_a_request_that_cannot_be_decoded_is_kept_too() -> None:
    recorder = Recorder(Time())
    for broken in (b"", b"\x00", b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff", frame(ApiVersionsRequest(), 0)[:-1]):
        recorder.close(recorder.begin("0-1@1", HOST, broken), "it is malformed")
    exchanges = [RecordedExchange(row) for row in recorder.rows()]
    assert [each.api for each in exchanges] == ["undecodable", "undecodable", "API 999", "undecodable"]
    assert {(each.answer, each.closed, each.answered_at_ms) for each in exchanges} == {
        ("no answer", "it is malformed", None)
    }


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "answer", "answer", "repeat", "close", "fault", "write", "wait"]),
        st.integers(0, 2),
        st.integers(0, 40_000),
    ),
    max_size=60,
)


class Script:
    """Plays steps to a recorder, as three connections would, and stores what changes."""

    def __init__(self) -> None:
        self.time = Time()
        self.recorder = Recorder(self.time)
        self.recorder.note_changes(wanted=True)
        self.encoder = BlockEncoder()
        self.store = MemoryStore()
        self.open: dict[int, ExchangeRow] = {}
        self.last: dict[int, ExchangeRow] = {}
        self.numbers: dict[int, int] = defaultdict(int)

    def step(self, what: str, connection: int, number: int) -> None:
        row = self.open.get(connection)
        match what:
            case "begin" if row is None:
                self.numbers[connection] += 1
                request = heartbeat(self.numbers[connection]) if number % 2 else frame(ApiVersionsRequest(), 0, number)
                self.open[connection] = self.recorder.begin(f"0-{connection}@1", HOST, request)
            case "answer" if row is not None:
                del self.open[connection]
                answer = accepted(self.numbers[connection], 27 * (number % 3 == 0))
                self.last[connection] = self.recorder.answer(row, answer, self.last.get(connection))
            case "repeat" if connection in self.last:
                self.recorder.repeat(self.last[connection], 1 + number % 3)
            case "close" if row is not None:
                self.recorder.close(self.open.pop(connection), "the connection was lost")
            case "fault" if row is not None:
                self.recorder.note_fault(row, "delay")
            case "write":
                self.write()
            case "wait":
                self.time.ms += number

    def write(self) -> None:
        async def write() -> None:
            for block in self.encoder.encode(self.recorder.take_changes(), self.time.ms):
                await self.store.append_exchanges(block, max_bytes=1_000_000)

        asyncio.run(write())


def contents(row: ExchangeRow) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in row.__struct_fields__)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_happens_the_blocks_of_a_store_give_the_exchanges_back(steps: list[tuple[str, int, int]]) -> None:
    script = Script()
    for step in steps:
        script.step(*step)
    script.write()
    stored = asyncio.run(read_exchanges(script.store))
    in_memory = sorted(script.recorder.rows(), key=lambda row: (row.at_ms, row.number))
    assert [contents(each.row) for each in stored] == [contents(row) for row in in_memory]


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_selection_from_the_store_is_that_from_memory(
    steps: list[tuple[str, int, int]], from_ms: int, length_ms: int
) -> None:
    script = Script()
    for step in steps:
        script.step(*step)
    script.write()
    wanted = ExchangeFilter(group="g", from_ms=from_ms, to_ms=from_ms + length_ms)
    stored = asyncio.run(read_exchanges(script.store, wanted))
    in_memory = [row for row in script.recorder.rows() if wanted.takes(RecordedExchange(row))]
    assert sorted(each.row.number for each in stored) == sorted(row.number for row in in_memory)


def test_a_heartbeat_that_was_stored_open_and_joined_a_run_is_not_read_twice() -> None:
    script = Script()
    for what in ("begin", "answer", "begin", "write", "answer", "write"):
        script.step(what, 1, 1)
    (run,) = asyncio.run(read_exchanges(script.store))
    assert (run.count, run.correlation_id) == (2, 1)


def test_a_run_survives_the_deletion_of_its_first_block() -> None:
    script = Script()
    script.step("begin", 1, 1)
    script.step("answer", 1, 1)
    script.write()
    script.time.ms += 70_000
    script.step("repeat", 1, 0)
    script.write()

    async def read() -> list[RecordedExchange]:
        blocks = [block async for block in script.store.read_exchanges()]
        store = MemoryStore()
        await store.append_exchanges(blocks[-1], max_bytes=1_000_000)
        return await read_exchanges(store)

    (run,) = asyncio.run(read())
    assert (run.count, run.api, run.answer) == (2, "Heartbeat", "NONE")
