"""Pictures of simulated groups: well-formed, within their limits, with the owners that the timeline has."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from rich.cells import cell_len

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.pictures.mermaid import mermaid_picture, mermaid_text
from regroup.classroom.pictures.part import Unreadable
from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.pictures.svg_canvas import shortened, text_width
from regroup.classroom.pictures.text import text_picture
from regroup.classroom.points import PositionRange
from regroup.classroom.timeline import GroupTimeline
from regroup.protocol.consumer.subscription import TopicPartition
from tests.classroom.histories import SEEDS, drawn_history, groups_of, scenario_history

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>&\"'\x1b[31m;end\n%%"
PICTURES = (svg_picture, mermaid_picture, text_picture)


def timeline(name: str) -> GroupTimeline:
    return timeline_of("lab", scenario_history(name))


def texts_of(document: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(document).iter(f"{SVG}text")]


def test_the_svg_shows_members_states_generations_and_owners() -> None:
    document = svg_picture(timeline("slow-member-delays-the-rebalance"))
    root = ElementTree.fromstring(document)
    assert root.findtext(f"{SVG}title") == "Group lab, 113.019 s of its history"
    assert "Not recorded: session clocks" in (root.findtext(f"{SVG}desc") or "")
    assert "@media (prefers-color-scheme: dark)" in document
    texts = texts_of(document)
    assert {"anna", "ben", "carla", "dora", "removed", "orders-0", "orders-5", "2, leader ben, range"} <= set(texts)
    assert {"JoinGroup, held 6 s", "JoinGroup, 20 s"} <= set(texts)


def test_every_label_of_the_svg_is_inside_the_picture() -> None:
    for name in ("slow-member-delays-the-rebalance", "cooperative-pause", "rolling-restart-static"):
        root = ElementTree.fromstring(svg_picture(timeline(name)))
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for each in root.iter(f"{SVG}text"):
            assert 0 < float(each.get("y", 0)) < height
            assert 0 < float(each.get("x", 0)) < width
        for each in root.iter(f"{SVG}rect"):
            assert float(each.get("x", 0)) + float(each.get("width", 0)) <= width + 0.1


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_a_picture_of_any_history_is_made_or_refused_with_a_range_that_is_not(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for group in groups_of(records):
        whole = timeline_of(group, records)
        for picture in PICTURES:
            try:
                picture(whole, None)
            except Unreadable as error:
                advice = re.search(r"--from (\d+) --to (\d+) would be readable", str(error))
                if advice:
                    picture(whole, PositionRange(int(advice[1]), int(advice[2])))


def test_the_owners_of_the_text_picture_are_those_of_the_timeline() -> None:
    shown = timeline("slow-member-delays-the-rebalance")
    lines = text_picture(shown).splitlines()
    times = [line for line in lines if re.match(r" +\+\d", line)]
    letters = dict(zip("abcd", ("ben", "anna", "carla", "dora"), strict=True))
    assert times
    for span in shown.ownership_at(shown.last.position):
        row = next(line for line in lines if line.startswith(f"orders-{span.partition.partition} "))
        characters = row[len("orders-0  ") :]
        assert len(characters) == len(times)
        assert [letters[characters[-1]]] == [shown.names[each] for each in span.owners]
    assert max(map(len, lines)) <= 80


def test_a_group_with_many_members_has_signs_in_place_of_words() -> None:
    text = text_picture(timeline("cooperative-pause"))
    assert "J JoinGroup, S SyncGroup" in text
    assert max(map(len, text.splitlines())) <= 80


def test_no_word_of_a_text_picture_is_cut() -> None:
    text = text_picture(timeline("two-clients-with-one-instance-id"))
    assert re.search(r"✕ replaced\s", text)
    assert "…" not in text
    renamed = text_picture(timeline("coordinator-fails-over-mid-rebalance")).splitlines()[2]
    assert renamed.split() == ["time", "state", "gen", "ben", "anna", "carla-49f2", "carla-57cc"]


@pytest.mark.parametrize(
    "name", ["消费者" * 12, "consumer-of-the-payments-service" * 4, "\x1b[31m" * 12], ids=["wide", "long", "control"]
)
@pytest.mark.parametrize("scenario_name", ["zombie-commits-after-removal", "rolling-restart-dynamic"])
def test_a_text_picture_is_80_columns_wide_whatever_names_there_are(scenario_name: str, name: str) -> None:
    whole = timeline(scenario_name)
    lanes = tuple(replace(lane, name=f"{name}{number}") for number, lane in enumerate(whole.lanes))
    topics = {TopicPartition(name, each.partition): spans for each, spans in whole.ownership.items()}
    lines = text_picture(replace(whole, group_id=name, lanes=lanes, ownership=topics)).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    rows = [found[1] for line in lines if (found := re.match(r"(\S+-\d) +[ a-z·!]*$", line))]
    assert len({*rows}) == len(rows) == len(whole.ownership), "each row still has its partition"


def test_the_mermaid_diagram_opens_and_closes_each_held_request() -> None:
    for name in ("slow-member-delays-the-rebalance", "leader-crashes-between-join-and-sync", "rolling-restart-dynamic"):
        try:
            lines = mermaid_picture(timeline(name)).splitlines()
        except Unreadable:
            continue
        assert lines[0] == "sequenceDiagram"
        active: set[str] = set()
        for word, short in (line.split()[:2] for line in lines[1:]):
            if word == "activate":
                assert short not in active
                active.add(short)
            elif word == "deactivate":
                active.remove(short)
        assert not active


def test_what_would_be_unreadable_is_refused_with_a_part_that_is_not() -> None:
    with pytest.raises(Unreadable, match=r"events at \d+ times, .*; --from \d+ --to \d+ would be readable"):
        svg_picture(timeline_of("lab", drawn_history(22)))


def hostile_timeline() -> GroupTimeline:
    whole = timeline("first-join")
    lanes = tuple(replace(lane, name=f"{HOSTILE}{lane.name}") for lane in whole.lanes)
    return replace(whole, group_id=HOSTILE, lanes=lanes)


def test_names_never_become_markup_of_a_picture() -> None:
    document = svg_picture(hostile_timeline())
    root = ElementTree.fromstring(document)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "desc", "style", "defs", "pattern", "path", "rect", "line", "text",
    }  # fmt: skip
    assert "<script" not in document
    assert "\x1b" not in document
    diagram = mermaid_picture(hostile_timeline())
    assert not re.search(
        r"[<>&\"\x1b%]|\n(?!    |$)", diagram.replace("->>", "").replace("-->>", "").replace(">", "")[15:]
    )
    assert mermaid_text("a;b#c") == "a#59;b#35;c"


def test_a_picture_of_a_part_has_only_the_members_of_that_part() -> None:
    whole = timeline("slow-member-delays-the-rebalance")
    before_dora = svg_picture(whole, PositionRange(whole.began.position, 19))
    assert "carla" in texts_of(before_dora)
    assert "dora" not in texts_of(before_dora)


def test_a_long_name_keeps_its_begin_and_its_end() -> None:
    short = shortened("consumer-of-the-payments-service-anna", 120, 11)
    assert short.startswith("consumer")
    assert short.endswith("-anna")
    assert text_width(short, 11) <= 120
    assert shortened("anna", 120, 11) == "anna"
    assert shortened("anna", 1, 11) == "…"
