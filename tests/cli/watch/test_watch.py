"""`regroup watch`: the table and the lines that it makes from the feed."""

from argparse import Namespace
from io import StringIO
from typing import Any

import msgspec
import pytest
from rich.console import Console

from regroup.cli.watch.command import FeedWatcher
from regroup.cli.watch.lines import event_line, refusal_line
from regroup.cli.watch.table import COLORS, WatchedCluster, groups_table
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.group import GroupKind
from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.consumer_summary import ConsumerState, ReconciliationSummary, ReconcilingMember
from regroup.server.mqtt.group_summary import GroupSummary, MemberSummary, RemovedMember
from regroup.server.mqtt.messages import ConnectionLossMessage, FeedEvent, Presence, RefusalMessage

ANNA = "anna-1f2e3d4c-0000-4000-8000-000000000001"
REMOVED = FeedEvent(
    position=9, event_number=9, coordinator_epoch=1, at_ms=8_000, type="member-removed", version=1,
    payload=msgspec.Raw(msgspec.json.encode({"member_id": ANNA, "reason": "silence\x1b[2J"})),
)  # fmt: skip


def group(died_at_ms: int | None = None) -> GroupSummary:
    anna = MemberSummary(
        member_id=ANNA,
        client_id="anna",
        client_host="/mqtt:anna",
        session_timeout_ms=6_000,
        connection_lost_at_ms=died_at_ms,
    )
    return GroupSummary(
        group="pay[red]ments", event_number=8, state="Stable", state_since_ms=1_000, generation_id=3,
        protocol_name="range", leader_id=ANNA, member_count=9, members=[anna],
    )  # fmt: skip


def drawn(cluster: WatchedCluster, width: int = 200) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(groups_table(cluster, 4_000, width))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_lost_connection_is_shown_with_the_session_timeout_until_the_member_is_removed() -> None:
    cluster = WatchedCluster(MqttAddress("broker", 1883), coordinator=Presence("online", "1"))
    cluster.groups["payments"] = group(died_at_ms=2_000)
    seen = drawn(cluster)
    assert "the coordinator is online" in seen
    assert "pay[red]ments" in seen
    assert "anna* and 8 more" in seen
    assert "the connection of anna was lost 2 s ago, session timeout 6 s" in seen
    loss = ConnectionLossMessage(
        group="pay[red]ments",
        member_id=ANNA,
        client_name="laptop-1",
        lost_at_ms=2_000,
        session_timeout_ms=6_000,
        is_removed=False,
    )
    cluster.record_connection_loss(loss)
    cluster.record_event("pay[red]ments", REMOVED)
    cluster.groups["payments"] = group()
    assert "laptop-1 lost; removed after 6.0 s" in drawn(cluster)


EVIL = "\x1b[31mred\x07"


def test_the_cells_of_watched_groups_hold_no_control_characters() -> None:
    member = MemberSummary(
        member_id=EVIL, client_id=EVIL, client_host=EVIL, session_timeout_ms=1, connection_lost_at_ms=1
    )
    cluster = WatchedCluster(MqttAddress("broker", 1883), detections={EVIL: f"{EVIL} lost"})
    cluster.groups["g"] = GroupSummary(
        group=EVIL, event_number=1, state=EVIL, state_since_ms=0, generation_id=1, protocol_name=EVIL, leader_id=EVIL,
        member_count=1, members=[member],
    )  # fmt: skip
    text = drawn(cluster)
    assert text.replace("\n", "").isprintable()
    assert text.count(r"\x1b[31mred\x07") == 5


EVENT = (
    b'{"group":"g","events":[{"position":1,"event_number":1,"coordinator_epoch":1,"at_ms":%s,"type":"%s",'
    b'"version":1,"payload":%s}]}'
)


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("coordinator", b"?"),
        ("topics", b'{"names":{"a":1}}'),
        ("groups/g/state", b'{"group":"g"}'),
        ("groups/g/connection-losses", b"[]"),
        ("groups/g/refusals", b"[]"),
        ("groups/g/events", b'{"group":"g"}'),
        ("groups/g/events", EVENT % (b"1", b"member-left", b"[]")),
        ("groups/g/events", EVENT % (b"1" * 400, b"offsets-committed", b"{}")),
        ("groups/g/events", EVENT % (b"1", b"offsets-committed", b"[" * 100_000 + b"]" * 100_000)),
    ],
)
async def test_an_invalid_message_is_reported_and_dropped_and_the_rest_is_shown(
    topic: str, payload: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = StringIO()
    args = Namespace(mqtt=MqttAddress("broker", 1883), group=None, from_start=True)
    watcher = FeedWatcher(args, Console(file=shown, width=200))
    watcher.handle_message(f"regroup/main/{topic}", payload)
    assert "cannot be decoded" in capsys.readouterr().err
    watcher.handle_message(
        "regroup/main/groups/other/events", (EVENT % (b"1", b"member-left", b"null")).replace(b'"g"', b'"other"')
    )
    assert "member-left" in shown.getvalue()


async def test_a_topic_made_before_the_watch_began_is_called_by_its_name() -> None:
    shown = StringIO()
    args = Namespace(mqtt=MqttAddress("broker", 1883), group="g", from_start=False)
    watcher = FeedWatcher(args, Console(file=shown, width=200))
    watcher.handle_message("regroup/main/topics", b'{"names":{"EhpVQmi7Rl6NJDZYYcaQ3Q":"orders"}}')
    payload = b'{"member_id":"anna","state":"stable","epoch":2,"assigned":{"EhpVQmi7Rl6NJDZYYcaQ3Q":{"0":2,"1":2}}}'
    watcher.handle_message("regroup/main/groups/g/events", EVENT % (b"1", b"member-reconciled", payload))
    assert "assigned orders 0-1" in shown.getvalue()


async def test_names_of_topics_are_no_sign_of_the_watched_group(capsys: pytest.CaptureFixture[str]) -> None:
    args = Namespace(mqtt=MqttAddress("broker", 1883), group="g", from_start=False)
    watcher = FeedWatcher(args, Console(file=StringIO(), width=200))
    watcher.handle_message("regroup/main/coordinator", b'{"state":"online","incarnation":"1"}')
    watcher.handle_message("regroup/main/topics", b'{"names":{}}')
    watcher.report_silence()
    assert "nothing was published about group 'g' yet" in capsys.readouterr().err


def test_the_line_of_an_event_has_ids_and_reason_and_no_control_characters() -> None:
    line = event_line("pay\x07ments", REMOVED).plain
    assert "member-removed" in line
    assert "anna-1f2e3d4c…" in line
    assert "because silence\\x1b[2J" in line
    assert line.isprintable()


def test_the_table_fits_80_columns_and_tells_members_with_one_client_id_apart() -> None:
    digits = ("1f2e", "8c4d", "03aa")
    members = [
        MemberSummary(
            member_id=f"regroup-1-{each}3d4c-0000-4000-8000-000000000001",
            client_id="regroup-1",
            client_host="/127.0.0.1",
            session_timeout_ms=6_000,
        )
        for each in digits
    ]
    cluster = WatchedCluster(MqttAddress("broker", 1883), coordinator=Presence("online", "1"))
    cluster.groups["payments"] = GroupSummary(
        group="payments", event_number=8, state="CompletingRebalance", state_since_ms=1_000, generation_id=3,
        protocol_name="range", leader_id=members[1].member_id, member_count=3, members=members,
    )  # fmt: skip
    seen = drawn(cluster, width=80)
    assert "…" not in seen
    assert [f"regroup-1-{each}" in seen for each in digits] == [True] * 3
    assert "regroup-1-8c4d*" in seen
    assert "CompletingRebalance" in seen


def test_refused_requests_are_lines_beside_the_events_and_stand_below_the_table() -> None:
    shown = StringIO()
    args = Namespace(mqtt=MqttAddress("broker", 1883), group=None, from_start=True)
    watcher = FeedWatcher(args, Console(file=shown, width=200))
    refusal = RefusalMessage(
        group="payments", at_ms=2_000, api="OffsetCommit", error="UNKNOWN_MEMBER_ID", member_id=ANNA, client_id="anna",
        generation_id=3,
    )  # fmt: skip
    watcher.handle_message("regroup/main/groups/payments/refusals", msgspec.json.encode(refusal))
    assert "OffsetCommit was refused: UNKNOWN_MEMBER_ID (to anna, generation 3)" in shown.getvalue()
    watcher.cluster.groups["payments"] = msgspec.structs.replace(group(), group="payments")
    assert "payments: OffsetCommit was refused: UNKNOWN_MEMBER_ID (to anna, generation 3), 2 s ago" in drawn(
        watcher.cluster, 200
    )
    assert "\x1b" not in refusal_line(msgspec.structs.replace(refusal, client_id="\x1b[2J", group="\x07")).plain


@pytest.mark.parametrize(("count", "words"), [(1, "  at 00:00:02.000"), (3, "  the last at 00:00:02.000")])
def test_a_notice_of_what_was_refused_before_has_its_own_time_and_says_when_that_was(count: int, words: str) -> None:
    refusal = RefusalMessage(
        group="payments", at_ms=2_000, api="OffsetCommit", error="UNKNOWN_MEMBER_ID", member_id=ANNA, client_id="anna",
        generation_id=3, published_at_ms=11_500, count=count, clients=("anna",),
    )  # fmt: skip
    line = refusal_line(refusal).plain
    assert line.startswith("     –  00:00:11.500  payments")
    assert line.endswith(words)
    at_once = refusal_line(msgspec.structs.replace(refusal, published_at_ms=2_000)).plain
    assert at_once.startswith("     –  00:00:02.000  payments")
    assert "at 00:" not in at_once
    from_0_2 = refusal_line(msgspec.structs.replace(refusal, published_at_ms=0)).plain
    assert from_0_2 == at_once


def reconciling_member(name: str, epoch: int, state: ReconciliationState, **fields: Any) -> MemberSummary:
    return MemberSummary(
        member_id=f"{name}-id", client_id=name, client_host="/127.0.0.1", session_timeout_ms=45_000,
        consumer=ReconcilingMember(member_epoch=epoch, state=state, assigned_count=3, **fields),
    )  # fmt: skip


def test_a_reconciliation_is_shown_with_the_members_that_hold_it_up_and_the_last_removed_one() -> None:
    states = ReconciliationState
    members = [
        reconciling_member("anna", 6, states.UNREVOKED_PARTITIONS, pending_count=2),
        reconciling_member("ben", 7, states.UNRELEASED_PARTITIONS),
        reconciling_member("cleo", 7, states.STABLE, is_classic=True),
        reconciling_member("dora", -2, states.STABLE),
    ]
    running = ReconciliationSummary(group_epoch=7, began_at_ms=1_000, ended_at_ms=None, members_behind=3)
    removed = RemovedMember(member_id="emil-id", at_ms=2_500, reason="silent\x1b[2J for 45 s")
    shown = GroupSummary(
        group="payments", event_number=8, state="Reconciling", state_since_ms=1_000, generation_id=7,
        protocol_name="uniform", leader_id=None, member_count=4, members=members, kind=GroupKind.CONSUMER,
        consumer=ConsumerState(group_epoch=7, assignment_epoch=7, assignor="uniform", reconciliation=running),
        removed_members=[removed],
    )  # fmt: skip
    cluster = WatchedCluster(MqttAddress("broker", 1883), groups={"payments": shown})
    seen = drawn(cluster)
    assert "epoch 7" in seen
    assert "anna (epoch 6, revokes 2), ben (waits for partitions), cleo (classic), dora (away)" in seen
    assert "payments: reconciliation to epoch 7 for 3 s, 3 of 4 members behind\n" in seen
    assert "emil-id was removed 1 s ago: silent\\x1b[2J for 45 s" in seen
    assert "Stable" in COLORS
    assert "Reconciling" in COLORS


def test_a_refused_request_with_a_member_epoch_names_it() -> None:
    refusal = RefusalMessage(
        group="payments", at_ms=2_000, api="ConsumerGroupHeartbeat", error="FENCED_MEMBER_EPOCH", member_id=ANNA,
        client_id="anna", generation_id=3,
    )  # fmt: skip
    assert "FENCED_MEMBER_EPOCH (to anna, epoch 3)" in refusal_line(refusal).plain
