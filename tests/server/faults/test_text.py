"""Fault rules as lines of text: what is read, what is shown, and what is refused."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.protocol.apis import API_NAMES
from regroup.protocol.errors import ErrorCode
from regroup.server.faults.cluster_facts import ClusterFacts
from regroup.server.faults.fields import CONDITIONS, COUNTS, EFFECTS
from regroup.server.faults.gate import ActiveFault, FaultRules, UnknownRule
from regroup.server.faults.rule import FALSE_ANSWERS, FaultRule, InvalidFault
from regroup.server.faults.text import (
    AddFault,
    ListFaults,
    ReleaseFault,
    RemoveFault,
    describe_fault,
    parse_fault_command,
    parse_rule,
    run_fault_command,
)
from regroup.server.responses.errors import ANSWERED_APIS, PARTITION_APIS

NAMES = st.text(min_size=1, max_size=12)
DELAYS = st.floats(min_value=0.001, max_value=3600, allow_nan=False)
CONDITIONS_DRAWN = st.fixed_dictionaries(
    {},
    optional={
        "version": st.integers(0, 20),
        "group": NAMES,
        "member_id": NAMES,
        "instance_id": NAMES,
        "client_id": NAMES,
        "topic": NAMES,
        "partitions": st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
        "broker": st.integers(0, 9),
        "generation": st.integers(-1, 9),
        "skip": st.integers(0, 9),
        "times": st.integers(0, 9),
        "chance": st.floats(0, 1),
        "seed": st.integers(-5, 5),
        "expires_after_s": DELAYS,
    },
)


def on(names):
    return st.one_of(st.sampled_from(names), st.lists(st.sampled_from(names), min_size=2, unique=True).map(tuple))


EFFECTS_DRAWN = st.one_of(
    st.fixed_dictionaries({"on": on(API_NAMES), "hold": st.just(True), "delay_s": DELAYS}),
    st.fixed_dictionaries({"on": on(sorted(ANSWERED_APIS)), "answer": st.sampled_from([*ErrorCode, 999])}),
    st.fixed_dictionaries(
        {"on": on(sorted(PARTITION_APIS)), "partition_error": st.sampled_from(list(ErrorCode)), "topic": NAMES}
    ),
    st.fixed_dictionaries({"drop": st.sampled_from(["request", "answer"])}),
    st.fixed_dictionaries({"close": st.just("after"), "repeat": st.just(True)}),
    st.fixed_dictionaries({"cut": st.sampled_from(["frame", "body"]), "cut_at": st.sampled_from([0, 0.25, 1, 12])}),
    st.sampled_from(sorted(FALSE_ANSWERS)).map(lambda name: {"on": FALSE_ANSWERS[name], "false_answer": name}),
    st.fixed_dictionaries({"throttle_ms": st.integers(1, 5000), "answer_delay_s": DELAYS}),
)
RULES = st.builds(lambda conditions, effects: FaultRule(**{**conditions, **effects}), CONDITIONS_DRAWN, EFFECTS_DRAWN)


@given(RULES)
def test_what_is_written_is_read_again(rule: FaultRule) -> None:
    line = describe_fault(ActiveFault(rule))
    assert parse_rule(f"{line.conditions} {line.effect}") == rule


def test_a_line_has_the_names_of_kafka_and_words_for_durations() -> None:
    rule = parse_rule("on=OffsetCommit group='the bills' answer=COORDINATOR_NOT_AVAILABLE times=2 expires_after_s=1m")
    assert rule == FaultRule(
        on="OffsetCommit",
        group="the bills",
        answer=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        times=2,
        expires_after_s=60,
    )
    assert parse_rule("on=JoinGroup,SyncGroup delay_s=250ms hold") == FaultRule(
        on=("JoinGroup", "SyncGroup"), delay_s=0.25, hold=True
    )
    assert parse_rule("throttle_ms=2s") == parse_rule("throttle_ms=2000") == FaultRule(throttle_ms=2000)
    assert parse_rule("delay_s=1.5 group=7") == FaultRule(delay_s=1.5, group="7")
    assert parse_rule("on=Fetch partition_error=6 partitions=0,2") == FaultRule(
        on="Fetch", partition_error=6, partitions=(0, 2)
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("faults", ListFaults()),
        ("release 2", ReleaseFault(2)),
        (" remove  12 ", RemoveFault(12)),
        ("fault drop=answer", AddFault(FaultRule(drop="answer"))),
    ],
)
def test_a_command_is_read(line: str, expected: object) -> None:
    assert parse_fault_command(line) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "invalid command: ''; type fault FIELD=VALUE"),
        ("release", "invalid command: 'release'"),
        ("release two", "invalid command: 'release two'"),
        ("remove -1", "invalid command: 'remove -1'"),
        ("faults 1", "invalid command: 'faults 1'"),
        ("fault", "the rule does nothing"),
        ("fault grup=billing drop=answer", "unknown field 'grup': did you mean group?"),
        ("fault drop=answer drop=request", "field 'drop' is given twice"),
        ("fault drop=everything", "invalid drop: 'everything'; give one of request, answer"),
        ("fault times=many drop=answer", "invalid times: 'many'; give a whole number"),
        ("fault chance=high drop=answer", "invalid chance: 'high'; give a number"),
        ("fault repeat=perhaps", "invalid repeat: 'perhaps'; give true or false"),
        ("fault on=Fetch partition_error=6 partitions=a", "invalid partitions: ('a',); give a list of whole numbers"),
        ("fault on=OffsetCommit answer=COORDINATOR_GONE", "unknown error code 'COORDINATOR_GONE': did you mean"),
        ("fault delay_s=soon", "invalid delay_s: 'soon'; give a duration such as 300ms, 5s or 1m"),
        ("fault delay_s=2h", "invalid delay_s: 7200.0; give 0 to 3600"),
        ("fault group='billing drop=answer", "invalid quotes in "),
        ("fault on=JoinGrup hold", "unknown API 'JoinGrup': did you mean JoinGroup?"),
        ("fault false_answer=second_leader", "second_leader is an answer to JoinGroup: give on='JoinGroup'"),
        (f"fault drop={'x' * 5000}", "invalid drop: 'xxx"),
    ],
)
def test_a_wrong_line_gets_one_short_line(line: str, text: str) -> None:
    with pytest.raises(InvalidFault) as caught:
        parse_fault_command(line)
    message = str(caught.value)
    assert text in message
    assert "\n" not in message
    assert len(message) < 1000


async def test_the_commands_act_on_the_rules_in_force() -> None:
    rules = FaultRules(ClusterFacts(lambda: None))
    assert run_fault_command(rules, "faults") == ["no rule is in force"]
    added = run_fault_command(rules, "fault on=OffsetCommit answer=COORDINATOR_NOT_AVAILABLE times=0")
    assert added == ["1  on=OffsetCommit times=0  answer=COORDINATOR_NOT_AVAILABLE  matched 0, hit 0, spent"]
    run_fault_command(rules, "fault hold")
    assert run_fault_command(rules, "faults")[1] == "2  every request  hold  matched 0, hit 0"
    assert run_fault_command(rules, "release 2") == ["rule 2: 0 requests released"]
    assert run_fault_command(rules, "remove 1") == ["rule 1 removed after 0 hits"]
    assert [fault.number for fault in rules.active()] == [2]
    with pytest.raises(UnknownRule, match="no rule 1 is in force; in force: 2"):
        run_fault_command(rules, "remove 1")


async def test_numbers_are_not_used_twice_and_an_expired_rule_is_not_listed() -> None:
    rules = FaultRules(ClusterFacts(lambda: None))
    run_fault_command(rules, "fault hold expires_after_s=1ms")
    run_fault_command(rules, "remove 1")
    assert run_fault_command(rules, "fault hold expires_after_s=1ms")[0].startswith("2  ")
    expired = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, expired.set)
    await expired.wait()
    assert run_fault_command(rules, "faults") == ["no rule is in force"]


def test_every_field_is_a_condition_a_count_or_an_effect() -> None:
    assert sorted((*CONDITIONS, *COUNTS, *EFFECTS)) == sorted(FaultRule.__struct_fields__)
