"""Members from afar: Kafka's frames come in MQTT messages, and go through the same connections as those from TCP.

A client has a name, and each of its connections to the MQTT broker an incarnation, which is in its topics and in its
last will. The newest incarnation counts: requests and wills of an older one are late, and mean nothing. Which is newer
only its presence says for sure, and nobody hears that while the connection to the MQTT broker is lost. So a request
under an incarnation that was never heard of is served, but ends no other: whichever asks next is served, too.
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

import msgspec

from regroup.coordinator import commands as c
from regroup.coordinator.serialization import Cause, written_cause
from regroup.mqtt.link import Outbox
from regroup.mqtt.topics import Topics
from regroup.protocol.exceptions import Malformed
from regroup.protocol.frames import FrameReader
from regroup.server.broker_cluster import Emulator
from regroup.server.mqtt.deaths import Death, Deaths
from regroup.server.mqtt.messages import MOST_REQUEST_BYTES, DeathMessage, Presence
from regroup.server.mqtt.pipe import Pipe
from regroup.server.mqtt.routing import broker_for, row_of
from regroup.server.mqtt.visitor import Visitor
from regroup.server.net.connection import Connection

MOST_VISITORS: Final = 10_000
LONGEST_NAME: Final = 249
"""Characters of a client's name, and of an incarnation: both end up in the group's events."""
MOST_FRAME_BYTES: Final = 4 * 1024 * 1024
"""Of one message from afar. MQTT itself would take 256 MB."""
MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Of answers that the MQTT broker has not taken yet."""
ENDED_INCARNATIONS: Final = 8
"""So many of a name are remembered, to know their late messages."""
HANG_UP: Final = b""
WILL_REASON: Final = "its connection's last will said that it died"


class Gateway:
    """`expels`: a last will makes the member leave its group at once; otherwise it is only told to whoever watches."""

    def __init__(
        self,
        emulator: Emulator,
        topics: Topics,
        outbox: Outbox,
        deaths: Deaths,
        *,
        expels: bool,
        refuse: Callable[[str], object],
    ) -> None:
        self._emulator = emulator
        self._topics = topics
        self._outbox = outbox
        self._deaths = deaths
        self._expels = expels
        self._refuse = refuse
        self._visitors: dict[str, Visitor] = {}
        self._ended: dict[str, deque[str]] = {}
        self._names = count(1)

    # -- what comes

    def hear_requests(self, name: str, incarnation: str, payload: bytes) -> None:
        """Whole frames, one or more; or nothing, which hangs up."""
        visitor = self._visitor(name, incarnation)
        if visitor is None:
            return
        if payload == HANG_UP:
            visitor.cut()
            return
        try:
            for frame in self._frames(payload):
                self._pass_on(visitor, frame)
        except Malformed as error:
            self._refuse(f"member {name[:80]!r} sent what is no request: {error}")
            self._hang_up(visitor)

    def hear_presence(self, name: str, payload: bytes) -> None:
        """Here, left, or died; JSON."""
        try:
            if len(payload) > MOST_REQUEST_BYTES:
                raise ValueError(f"{len(payload)} bytes are too many")
            presence = msgspec.json.decode(payload, type=Presence)
        except ValueError as error:
            self._refuse(f"the presence of {name[:80]!r} cannot be read: {error}")
            return
        current = self._visitors.get(name)
        if presence.state == "here":
            self._welcome(name, presence.incarnation)
        elif current is not None and current.incarnation == presence.incarnation:
            self._end(current)
            if presence.state == "died":
                self._mourn(current)

    def clear(self) -> None:
        """The connection to the MQTT broker is lost, and with it every answer that was on its way. Clients may have
        lost theirs or not; what is known of their incarnations stays true."""
        for visitor in self._visitors.values():
            visitor.cut()

    # -- who they are

    def _welcome(self, name: str, incarnation: str) -> None:
        """It says that it is there: the one before it is over."""
        current, newest = self._visitors.get(name), self._visitor(name, incarnation)
        if current is not None and newest is not None and current is not newest:
            self._remember_end(current)

    def _visitor(self, name: str, incarnation: str) -> Visitor | None:
        """The client as it is now; None for an incarnation that is over, or if there are too many."""
        current = self._visitors.get(name)
        if current is not None and current.incarnation == incarnation:
            return current
        if incarnation in self._ended.get(name, ()):
            self._refuse(f"member {name[:80]!r} is heard under an incarnation that is over")
            return None
        if not 0 < len(name) <= LONGEST_NAME or not 0 < len(incarnation) <= LONGEST_NAME:
            self._refuse(f"a member's name and incarnation have 1 to {LONGEST_NAME} characters")
            return None
        if current is not None:
            # If it lives after all, it should not wait in vain for what it has asked.
            self._hang_up(current)
        elif not self._has_room():
            self._refuse(f"there are {MOST_VISITORS} members from afar already; {name[:80]!r} is not heard")
            return None
        visitor = self._visitors[name] = Visitor(name, incarnation)
        return visitor

    def _has_room(self) -> bool:
        """Not everybody says goodbye, so somebody idle makes room; if it lives, it comes back with its next request."""
        if len(self._visitors) >= MOST_VISITORS:
            idle = next((visitor for visitor in self._visitors.values() if not visitor.pipes), None)
            if idle is not None:
                del self._visitors[idle.name]
        return len(self._visitors) < MOST_VISITORS

    def _end(self, visitor: Visitor) -> None:
        visitor.cut()
        del self._visitors[visitor.name]
        self._remember_end(visitor)

    def _remember_end(self, visitor: Visitor) -> None:
        """In the order of the last end, so that the oldest are forgotten first."""
        ended = self._ended.pop(visitor.name, None) or deque(maxlen=ENDED_INCARNATIONS)
        ended.append(visitor.incarnation)
        self._ended[visitor.name] = ended
        if len(self._ended) > MOST_VISITORS:
            del self._ended[next(iter(self._ended))]

    # -- requests and answers

    def _frames(self, payload: bytes) -> list[bytes]:
        if len(payload) > MOST_FRAME_BYTES:
            raise Malformed(f"{len(payload)} bytes in one message; at most {MOST_FRAME_BYTES} are taken")
        reader = FrameReader(MOST_FRAME_BYTES)
        frames = list(reader.feed(payload))
        if reader.held_bytes or not frames:
            raise Malformed("a frame begins with the number of its bytes, in four bytes, and ends with the message")
        return frames

    def _pass_on(self, visitor: Visitor, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        if correlation_id <= visitor.last_correlation_id:
            # MQTT may deliver twice; a JoinGroup that came twice would make a second member.
            self._refuse(f"member {visitor.name[:80]!r} repeats correlation id {correlation_id}; it is dropped")
            return
        visitor.last_correlation_id = correlation_id
        place = broker_for(self._emulator.cluster, frame), row_of(frame)
        pipe = visitor.pipes.get(place) or self._open(visitor, place)
        if pipe is None:
            self._hang_up(visitor)
        else:
            pipe.receive(len(frame).to_bytes(4, "big") + frame)

    def _open(self, visitor: Visitor, place: tuple[int, int]) -> Pipe | None:
        """None while no broker is there."""
        if place[0] < 0:
            return None
        topic = self._topics.connection(visitor.name, visitor.incarnation, "responses")
        pipe = Pipe(
            f"mqtt:{visitor.name}",
            lambda data: self._answer(visitor, topic, data),
            lambda pipe, was_idle: visitor.forget(pipe) if was_idle else self._hang_up(visitor),
        )
        visitor.pipes[place] = pipe
        desk = visitor.desk(self._emulator.brokers[place[0]], self._deaths)
        pipe.join(Connection(desk, f"mqtt-{visitor.name}-{next(self._names)}"))
        return pipe

    def _answer(self, visitor: Visitor, topic: str, data: bytes) -> None:
        if self._outbox.bytes > MOST_WAITING_BYTES:
            self._refuse("the MQTT broker takes no answers; members from afar are hung up on")
            visitor.cut()
        else:
            self._outbox.put(topic, data)

    def _hang_up(self, visitor: Visitor) -> None:
        """Whatever it waits for will not be answered."""
        visitor.cut()
        topic = self._topics.connection(visitor.name, visitor.incarnation, "responses")
        self._outbox.put(topic, HANG_UP)

    # -- deaths

    def _mourn(self, visitor: Visitor) -> None:
        """Somebody's connection broke without a goodbye."""
        if visitor.member is None:
            return
        group_id, member_id = visitor.member
        coordinator = self._emulator.shares.coordinators[self._emulator.shares.share_of(group_id)]
        member = coordinator.group(group_id).members.get(member_id)
        if member is None:
            return
        at_ms = self._emulator.cluster.now_ms()
        self._deaths.announce(Death(group_id, member_id, visitor.name, at_ms))
        message = DeathMessage(
            group=group_id,
            member=member_id,
            name=visitor.name,
            died_at_ms=at_ms,
            session_timeout_ms=member.session_timeout_ms,
            expelled=self._expels,
        )
        self._outbox.put(self._topics.group(group_id, "deaths"), msgspec.json.encode(message))
        if self._expels:
            leaving = c.Leaving(member_id, member.instance_id, WILL_REASON)
            cause = Cause(deadline="last-will", member=member_id, client_id=member.client_id)
            command = c.LeaveGroup(group_id=group_id, at_ms=at_ms, members=(leaving,))
            coordinator.submit(command, cause=lambda: written_cause(cause))
