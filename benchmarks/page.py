"""How quickly the page of a group's history opens and moves: `python benchmarks/page.py [--events N …]`.

It needs Chromium and Playwright.

A group with one member for each hundred events (20 at least) rebalances again and again: every member joins, syncs and
commits, and one leaves and another joins before the next rebalance. The page is one file, opened from disk in headless
Chromium. Measured are the seconds in which Python folds the events and makes the file, its size, the seconds from
opening it until the first picture stands, the processor time of the page's main thread for a frame while the slider
moves through the history, and the 95th percentile of the times between frames with the processor throttled four times,
in the window with which the page opens and with the whole history in the window: the best of five passes, because
these times hold whatever else the machine does.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple
from uuid import UUID

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.page.files import Run, html_file
from regroup.coordinator import events as e
from regroup.coordinator.group import CommittedOffset, MemberProfile
from regroup.coordinator.serialization import Cause, encode_cause, encode_event
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.server.cluster.events import TopicCreated, encode_cluster_event
from regroup.storage.records import Record

CHROMIUM = "/usr/bin/chromium"
GROUP = "payments"
FRAMES, PASSES = 150, 5
SCRUB = """
async (frames) => {
  const gaps = [], last = stage.history.length - 1;
  let before = performance.now();
  for (let frame = 0; frame <= frames; frame++) {
    stage.goTo(Math.round((last * frame) / frames));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - before);
    before = now;
  }
  return gaps;
}
"""


class GroupLife:
    """Writes the events of a group with a number of members, until there are enough events."""

    def __init__(self, events: int, members: int) -> None:
        self._events, self._count = events, members
        self._at_ms, self._number, self._drawn, self._generation = 1_700_000_000_000, 0, 0, 0
        self._offset = 0
        self._members: list[str] = []

    def records(self) -> list[Record]:
        """The record of the topic, and those of the group."""
        created = encode_cluster_event(
            TopicCreated(name="orders", topic_id="", partitions=self._count),
            event_number=1,
            coordinator_epoch=1,
            at_ms=self._at_ms,
            cause=Cause(internal="benchmark"),
        )
        records = [_record(created, 1)]
        for event, cause in self._life():
            self._number += 1
            encoded = encode_event(GROUP, self._number, 1, event, encode_cause(cause))
            records.append(_record(encoded, self._number + 1))
            if self._number == self._events:
                break
        return records

    def _life(self) -> Iterator[tuple[e.Event, Cause]]:
        yield e.GroupCreated(at_ms=self._at_ms, by_join=True), self._request("JoinGroup", "client-0")
        while True:
            yield from self._rebalance()
            yield from self._commits()

    def _rebalance(self) -> Iterator[tuple[e.Event, Cause]]:
        joined = [self._draw() for _ in range(self._count - len(self._members) + bool(self._members))]
        if self._members:
            gone = self._members.pop(0)
            yield e.MemberLeft(at_ms=self._tick(20_000), member_id=gone), self._request("LeaveGroup", gone)
        deadline_ms = self._at_ms + 300_000
        yield e.RebalanceStarted(at_ms=self._tick(), deadline_ms=deadline_ms), self._request("JoinGroup", joined[0])
        for each in self._members:
            profile = _profile(each)
            yield (
                e.MemberRejoined(at_ms=self._tick(), member_id=each, profile=profile),
                self._request("JoinGroup", each),
            )
        for each in joined:
            yield self._join(each), self._request("JoinGroup", each)
        self._members += joined
        leader = self._members[0]
        yield e.LeaderElected(at_ms=self._tick(), leader_id=leader), self._request("JoinGroup", leader)
        self._generation += 1
        started = e.GenerationStarted(
            at_ms=self._tick(),
            generation_id=self._generation,
            protocol_name="range",
            leader_id=leader,
            subscribed_topics=("orders",),
            sync_deadline_ms=self._at_ms + 300_000,
        )
        yield started, self._request("JoinGroup", leader)
        for each in self._members:
            synced = e.MemberSynced(at_ms=self._tick(), member_id=each, awaits_assignment=True)
            yield synced, self._request("SyncGroup", each)
        given = {
            each: encode_assignment(Assignment(1, (TopicPartition("orders", index),)))
            for index, each in enumerate(self._members)
        }
        yield e.AssignmentWritten(at_ms=self._tick(), assignments=given), self._request("SyncGroup", leader)
        yield e.AssignmentCommitted(at_ms=self._at_ms), self._request("SyncGroup", leader)

    def _join(self, member_id: str) -> e.Event:
        return e.MemberJoined(
            at_ms=self._tick(), member_id=member_id, protocol_type="consumer", profile=_profile(member_id)
        )

    def _commits(self) -> Iterator[tuple[e.Event, Cause]]:
        self._offset += 137
        for index, each in enumerate(self._members):
            offsets = {"orders": {index: CommittedOffset(self._offset + index, committed_at_ms=self._at_ms)}}
            committed = e.OffsetsCommitted(at_ms=self._tick(), member_id=each, offsets=offsets)
            yield committed, self._request("OffsetCommit", each)

    def _draw(self) -> str:
        """Draw a new member id.

        Its UUID is drawn from all digits, so that it compresses no better than a real one.
        """
        self._drawn += 1
        number = (self._drawn * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128
        return f"client-{self._drawn}-{UUID(int=number)}"

    def _tick(self, passed_ms: int = 0) -> int:
        self._at_ms += passed_ms + self._number * 7919 % 4
        return self._at_ms

    def _request(self, api: str, member_id: str) -> Cause:
        name = "-".join(member_id.split("-")[:2])
        return Cause(api=api, connection=f"0-{name.split('-')[1]}@1", correlation_id=self._number % 97, client_id=name)


def _profile(member_id: str) -> MemberProfile:
    return MemberProfile(
        client_id="-".join(member_id.split("-")[:2]),
        client_host="/10.0.0.7",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        supported_protocols=(SupportedProtocol("range", encode_subscription(Subscription(1, ("orders",)))),),
    )


def _record(new: Any, position: int) -> Record:
    return Record(**{name: getattr(new, name) for name in new.__struct_fields__}, position=position)


class PageTimes(NamedTuple):
    """The times of one page."""

    opened_s: float
    busy_ms: float
    """Processor time of the main thread for one frame in milliseconds, with the processor not throttled."""
    frame_ms: float
    """The 95th percentile of the times between two frames in milliseconds, with the processor throttled."""
    whole_ms: float
    """The same with the whole history in the window, where thousands of spans share a pixel."""


def measure(browser: Browser, file: Path) -> PageTimes:
    """Open the page, and move the slider through the whole history."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    began = time.perf_counter()
    page.goto(file.as_uri(), wait_until="commit")
    page.wait_for_selector("html[data-ready=true]", timeout=120_000)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    opened_s = time.perf_counter() - began
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before_s = busy_s(session)
    page.evaluate(SCRUB, FRAMES)
    busy_ms = (busy_s(session) - before_s) / FRAMES * 1000
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    frame_ms = best_pass(page)
    page.evaluate("stage.fit()")
    whole_ms = best_pass(page)
    page.close()
    return PageTimes(opened_s, busy_ms, frame_ms, whole_ms)


def best_pass(page: Page) -> float:
    """The lowest 95th percentile of several passes through the history."""
    return min(quantiles(page.evaluate(SCRUB, FRAMES)[1:], n=20)[-1] for _ in range(PASSES))


def busy_s(session: CDPSession) -> float:
    """The processor time in seconds that tasks of the page's main thread have taken so far."""
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def main(sizes: Sequence[int]) -> None:
    print("   events  members folded in   made in      size  opened in  CPU/frame  frames p95  whole p95")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with tempfile.TemporaryDirectory() as folder:
            for events in sizes:
                members = max(20, events // 100)
                records, began = GroupLife(events, members).records(), time.perf_counter()
                timeline = timeline_of(GROUP, records)
                folded_s = time.perf_counter() - began
                file, began = Path(folder, f"{events}.html"), time.perf_counter()
                file.write_text(html_file([Run("benchmark", timeline)]), encoding="utf-8")
                made_s, size = time.perf_counter() - began, file.stat().st_size / 1e6
                found = measure(browser, file)
                times = f"{found.opened_s:>8.2f} s {found.busy_ms:>7.1f} ms"
                times += f" {found.frame_ms:>8.0f} ms {found.whole_ms:>7.0f} ms"
                print(f"{events:>9,} {members:>8,} {folded_s:>7.1f} s {made_s:>7.1f} s {size:>6.2f} MB {times}")
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", nargs="+", type=int, default=[1_000, 10_000, 100_000], help="sizes of histories")
    main(parser.parse_args().events)
