"""Recordings of single requests, and recorded runs of the lab."""

import asyncio
from functools import lru_cache

from regroup.classroom.reading import read_timelines
from regroup.classroom.recorded.drafts import ExchangeDrafts
from regroup.classroom.recorded.exchanges import timeline_exchanges
from regroup.classroom.recorded_values import TimelineExchange
from regroup.classroom.timeline import GroupTimeline
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from regroup.protocol.frames import encode_response
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import Observation, read_observations
from regroup.storage.memory import MemoryStore
from tests.lab.classic_plans import draw_classic_plan
from tests.server.recording.frames import HOST, frame

CONNECTION = "0-1@1"


class Script:
    """The rows of one connection, written by a test."""

    def __init__(self) -> None:
        self.drafts = ExchangeDrafts(["g"])
        self._correlation_ids = 0

    def exchange(
        self,
        request: Message,
        response: Message | None = None,
        *,
        version: int = 3,
        at_ms: int = 1_000,
        answered_ms: int | None = None,
        client: str = "anna",
        closed: str = "",
        fault: str = "",
    ) -> int:
        """Record a request and, if there is one, its response; returns its number."""
        number = self._correlation_ids = self._correlation_ids + 1
        sent = frame(request, version, number, client)
        row = ExchangeRow(number, CONNECTION, HOST, at_ms, at_ms, sent, len(sent), fault=fault)
        if response is not None:
            row.response = bytes(encode_response(request.api_key, version, number, response)[4:])
            row.response_bytes = len(row.response)
        if response is not None or closed:
            row.ended_at_ms, row.closed = answered_ms or at_ms, closed
        self.drafts.on_row(row, 1)
        return number

    def again(self, number: int, at_ms: int, count: int) -> None:
        """A run has grown, as a later block of the store says."""
        self.drafts.on_row(ExchangeRow(number, CONNECTION, HOST, 1_000, at_ms, b"", 1, at_ms, b"", 1, count=count), 1)

    def exchanges(self) -> tuple[TimelineExchange, ...]:
        return timeline_exchanges(self.drafts, "g", ())


def join(member_id: str = "", group: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group, session_timeout_ms=1, member_id=member_id, protocol_type="consumer", protocols=[]
    )


def joined(member_id: str, error_code: int = 0) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=member_id)


@lru_cache(maxsize=32)
def recorded_run(what: str | int) -> MemoryStore:
    """The store of a scenario, or of the run that a seed draws, with everything that the lab can record."""
    plan = scenario(what) if isinstance(what, str) else draw_classic_plan(what)
    return recorded(plan)


def recorded(plan: SimulationPlan) -> MemoryStore:
    store = MemoryStore()
    play(plan, check_invariants=False, open_store=store.open, record=True)
    return store


def timeline(what: str | int, group: str = "lab") -> GroupTimeline:
    return asyncio.run(read_timelines(recorded_run(what), [group]))[group]


def observations(store: MemoryStore) -> list[Observation]:
    async def read() -> list[Observation]:
        return [each async for each in read_observations(store)]

    return asyncio.run(read())
