"""One run: an emulator, a client program, a fault, and what followed until the client has recovered."""

import time
from typing import Any

from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.testing import Emulator, RecordedExchange
from regroup.testing.groups.story import GroupEvent
from regroup.testing.groups.views import GroupView
from tests.clients.survey.faults import SurveyedFault
from tests.clients.survey.observation import GROUP_APIS, ObservedEvent, ObservedRequest, ProgramLine, Run
from tests.clients.survey.profile import (
    BROKERS,
    CLIENT_ID,
    COMMITS_BEFORE,
    COMMITTED_BEFORE,
    GROUP,
    INSTANCE_ID,
    PARTITIONS,
    PROFILE,
    QUIET_MS,
    RECORD_INTERVAL_S,
    RECORDS_BEFORE,
    SETTLED_MS,
    START_LIMIT_S,
    TOPIC,
)
from tests.clients.survey.programs.starting import ClientProgram
from tests.clients.survey.recovery import recovery_of

LOOK_INTERVAL_S = 0.1


class NotHit(Exception):
    """The fault did not hit the client; the message says what was seen."""


class Survey:
    """One client program against one fault."""

    def __init__(self, kafka: Emulator, program: ClientProgram, client: str, fault: SurveyedFault) -> None:
        self._kafka = kafka
        self._program = program
        self._client = client
        self._fault = fault
        self._produced = 0
        self._act_ms = 0

    def run(self) -> Run:
        """Raises NotHit."""
        ready = self._program.wait_until_ready()
        if self._fault.moment == "start":
            self._begin_fault()
        address = {"servers": self._kafka.bootstrap_servers, "group": GROUP, "topic": TOPIC, "client_id": CLIENT_ID}
        instance_id = INSTANCE_ID if self._fault.is_static else ""
        self._program.begin(PROFILE | address | {"instance_id": instance_id})
        if self._fault.moment != "start":
            self._wait_until_it_commits()
            self._begin_fault()
        return self._observe(ready)

    def _begin_fault(self) -> None:
        self._act_ms = self._kafka.now_ms()
        if self._fault.rule is not None:
            self._kafka.fault(**self._fault.rule)
        if self._fault.act is not None:
            self._fault.act(self._kafka)
        if self._fault.moment == "rebalance":
            self._kafka.group(GROUP).rebalance()

    def _produce(self, seconds: float) -> None:
        """Produce records, one after another, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._kafka.produce(TOPIC, f"record {self._produced}", partition=self._produced % PARTITIONS)
            self._produced += 1
            time.sleep(RECORD_INTERVAL_S)

    def _wait_until_it_commits(self) -> None:
        end = time.monotonic() + START_LIMIT_S
        while not commits_regularly(self._kafka.group(GROUP).now()):
            if time.monotonic() > end or self._program.exit_code is not None:
                raise NotHit(f"the client did not commit before the fault:\n{self._kafka.group(GROUP).story()}")
            self._produce(LOOK_INTERVAL_S)

    def _observe(self, ready: dict[str, Any]) -> Run:
        """Look until the client has settled, has given up, or the time is over."""
        while True:
            self._produce(LOOK_INTERVAL_S)
            now_ms = self._kafka.now_ms()
            exchanges = self._kafka.exchanges(api=GROUP_APIS, client_id=CLIENT_ID)
            hit = self._hit(exchanges)
            has_exited = self._program.exit_code is not None
            if hit is None:
                if now_ms - self._act_ms > self._fault.limit_ms or has_exited:
                    raise NotHit(f"the fault hit nothing:\n{self._kafka.group(GROUP).story()}")
                continue
            hit_ms = exchanges[hit].at_ms
            requests = [observed_request(each, hit_ms) for each in exchanges]
            if has_exited or is_over(requests, hit, now_ms - hit_ms, self._fault.limit_ms):
                return self._result(ready, requests, hit, hit_ms, now_ms)

    def _hit(self, exchanges: list[RecordedExchange]) -> int | None:
        """The index of the first request to which the fault did something."""
        for index, each in enumerate(exchanges):
            is_evidence = each.answer in self._fault.evidence or each.api in self._fault.seen_by
            if each.fault or (is_evidence and (each.answered_at_ms or 0) >= self._act_ms):
                return index
        return None

    def _result(
        self, ready: dict[str, Any], requests: list[ObservedRequest], hit: int, hit_ms: int, now_ms: int
    ) -> Run:
        exit_code = self._program.exit_code
        lines = list(self._program.lines)
        settings = next((each["settings"] for each in lines if each["what"] == "settings"), {})
        if exit_code is not None:
            lines.append({"what": "exited", "at_ms": now_ms, "code": exit_code})
        return Run(
            client=self._client,
            fault=self._fault.name,
            version=ready["version"],
            runtime=ready["runtime"],
            settings=settings,
            ended_at_ms=now_ms - hit_ms,
            hit=hit,
            requests=requests,
            lines=[program_line(each, hit_ms) for each in lines if each["what"] not in ("settings", "committed")],
            events=[observed_event(each, hit_ms) for each in self._kafka.group(GROUP).events()],
        )


def commits_regularly(group: GroupView) -> bool:
    """The client has all partitions and has committed in each."""
    partitions = [group.committed.get((TOPIC, number), 0) for number in range(PARTITIONS)]
    return group.is_settled and len(group.members) == 1 and min(partitions) >= COMMITTED_BEFORE + COMMITS_BEFORE


def is_over(requests: list[ObservedRequest], hit: int, now_ms: int, limit_ms: int) -> bool:
    """Whether a run has shown what it can show, `now_ms` after the fault. It ends after `limit_ms` in any case."""
    recovery = recovery_of(requests, hit)
    if recovery is not None and recovery.is_confirmed and now_ms - recovery.at_ms >= SETTLED_MS:
        return True
    latest_ms = max(each.latest_ms for each in requests)
    may_be_unread = requests[hit].answered_at_ms is None  # further requests on that connection are not read
    return now_ms >= limit_ms or (now_ms - latest_ms >= QUIET_MS and not may_be_unread)


def observed_request(exchange: RecordedExchange, hit_ms: int) -> ObservedRequest:
    """What the survey keeps of an exchange."""
    request = exchange.request
    generation = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", None))
    return ObservedRequest(
        at_ms=exchange.at_ms - hit_ms,
        answered_at_ms=None if exchange.answered_at_ms is None else exchange.answered_at_ms - hit_ms,
        api=exchange.api,
        version=exchange.version,
        connection=exchange.connection,
        answer=exchange.answer,
        fault=exchange.fault,
        member_id=sender_of(request),
        generation=generation,
        offsets=committed_offsets(request) if exchange.api == "OffsetCommit" else {},
        count=exchange.count,
        last_at_ms=exchange.last_at_ms - hit_ms if exchange.count > 1 else None,
    )


def sender_of(request: Any) -> str:
    """The member id in a request; empty where it has none. The id that a JoinGroup gets is not in its request."""
    leaving = getattr(request, "members", ())
    return getattr(request, "member_id", "") or (leaving[0].member_id if leaving else "")


def committed_offsets(request: Any) -> dict[str, int]:
    """The offsets of an OffsetCommitRequest, by partition; the survey has one topic."""
    return {str(each.partition_index): each.committed_offset for topic in request.topics for each in topic.partitions}


def program_line(line: dict[str, Any], hit_ms: int) -> ProgramLine:
    details = {name: value for name, value in line.items() if name not in ("what", "at_ms")}
    return ProgramLine(at_ms=line["at_ms"] - hit_ms, what=line["what"], details=details)


def observed_event(event: GroupEvent, hit_ms: int) -> ObservedEvent:
    partitions = (event.fields.get("offsets") or {}).get(TOPIC, {}) if event.type == "offsets-committed" else {}
    return ObservedEvent(
        at_ms=event.at_ms - hit_ms,
        type=event.type,
        cause=event.cause_text,
        offsets={number: each["offset"] for number, each in partitions.items()},
    )


def run_once(program: ClientProgram, client: str, fault: SurveyedFault) -> Run:
    """One run with an emulator of its own. Raises NotHit."""
    with Emulator(topics={TOPIC: PARTITIONS}, brokers=BROKERS) as kafka:
        for number in range(PARTITIONS):
            for record in range(RECORDS_BEFORE):
                kafka.produce(TOPIC, f"earlier record {record}", partition=number)
        commit_by_hand(kafka)
        return Survey(kafka, program, client, fault).run()


def commit_by_hand(kafka: Emulator) -> None:
    """Commit an offset of each partition, as an earlier consumer of the group would have."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=COMMITTED_BEFORE)
        for number in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    with kafka.connect("earlier", group=GROUP) as earlier:
        earlier.send(OffsetCommitRequest(group_id=GROUP, topics=topics), version=7)
