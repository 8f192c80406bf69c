"""The result of a command, `Decision`, and the builder with which the handlers of commands make it."""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeAlias

import msgspec

from regroup.coordinator.commands import Command
from regroup.coordinator.events import Event
from regroup.coordinator.group import AwaitedResponse, Group, MemberId
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure

__all__ = ["ResponseKey", "LeaderPolicy", "first_candidate", "ReleasedResponse", "CompletedAppend", "Decision"]

Fields = ParamSpec("Fields")

ResponseKey: TypeAlias = tuple[AwaitedResponse, MemberId]
"""Identifies a held response within its group: the JoinGroup or the SyncGroup response of one member."""

LeaderPolicy: TypeAlias = Callable[[str, Sequence[MemberId]], MemberId]
"""A function that chooses the next leader of a group, given the group id and the candidates in the order in which they
joined."""


def first_candidate(group_id: str, candidates: Sequence[MemberId]) -> MemberId:
    """The default LeaderPolicy: the member that joined first becomes leader. Kafka takes the one that its hash map
    returns first."""
    return candidates[0]


class ReleasedResponse(msgspec.Struct, frozen=True):
    """The response to a request that was held until now."""

    key: ResponseKey
    response: Structure | None
    """The response; None if, as in Kafka, the request is never answered and the client times out."""


class CompletedAppend(msgspec.Struct, frozen=True):
    """Says that the emulated Kafka log has committed or failed a record, so that the requests that wait for it are
    answered."""

    append_number: int
    error_code: ErrorCode = ErrorCode.NONE
    """If not NONE, the error code of their responses: the record failed or timed out."""
    join_response: Structure | None = None
    """The response to a waiting JoinGroup, in place of one with `error_code`."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Everything that follows from one command. Its responses are sent only when the events are durable."""

    group: Group
    """The group after all events of the decision."""
    events: tuple[Event, ...] = ()
    response: Structure | None = None
    """The response to the command itself; None if it is not a request, or if its response is held."""
    held_under: ResponseKey | None = None
    """The command's response is held under this key. It replaces an older request under the same key."""
    released: tuple[ReleasedResponse, ...] = ()
    """Responses to requests that were held before, and perhaps to the present one."""
    touched_sessions: tuple[MemberId, ...] = ()
    """Members whose session timeout starts again with this command."""
    after_append: int | None = None
    """The number of the event whose record the emulated Kafka log must complete before the response is sent; None if
    the response does not wait."""
    completed_appends: tuple[CompletedAppend, ...] = ()


class DecisionBuilder(msgspec.Struct, gc=False):
    """Applies the events of one command to its group one after another, and collects the responses.

    A builder is made for every request, so it is a struct, and like Decision outside the reach of the cycle collector:
    nothing in it refers back to it.
    """

    settings: CoordinatorSettings
    group: Group
    """The group after the events applied so far."""
    at_ms: int
    """The time of the command and of its events, in epoch milliseconds."""
    evolve: Callable[[Group, Event], Group]
    """Folds an event into the group."""
    choose_leader: LeaderPolicy = first_candidate
    events: list[Event] = []
    released: list[ReleasedResponse] = []
    touched_sessions: dict[MemberId, None] = {}
    held_under: ResponseKey | None = None
    completed_appends: list[CompletedAppend] = []

    def apply(self, event_type: Callable[Fields, Event], *args: Fields.args, **fields: Fields.kwargs) -> None:
        """Create an event and fold it into the group at once, so that later decisions see its effect."""
        fields["at_ms"] = self.at_ms
        event = event_type(*args, **fields)
        self.group = self.evolve(self.group, event)
        self.events.append(event)

    def append_deadline_ms(self, command: Command) -> int | None:
        """By when the emulated Kafka log must have committed a record that this command writes, in epoch milliseconds;
        None if the log commits it at once.

        A record written after a delayed one is delayed too, since the log keeps the order of its records.
        """
        if command.delays_append or self.group.pending_appends:
            return self.at_ms + self.settings.offsets_commit_timeout_ms
        return None

    def hold(self, awaited: AwaitedResponse, member_id: MemberId) -> None:
        """Hold the response to the present command, until `release` is called for the same member."""
        self.held_under = (awaited, member_id)

    def release(self, awaited: AwaitedResponse, member_id: MemberId, response: Structure | None) -> None:
        """Answer the held request of this kind of a member with the response; with None the request is never
        answered."""
        self.released.append(ReleasedResponse((awaited, member_id), response))

    def touch_session(self, member_id: MemberId) -> None:
        """Start the member's session timeout again."""
        self.touched_sessions[member_id] = None

    def complete_append(
        self,
        append_number: int,
        error_code: ErrorCode = ErrorCode.NONE,
        join_response: Structure | None = None,
    ) -> None:
        """Answer the requests that wait for the record of event `append_number`: with their own responses, or with this
        error if the record was lost. A waiting JoinGroup gets `join_response` instead, if it is not None."""
        self.completed_appends.append(CompletedAppend(append_number, error_code, join_response))

    def build(self, response: Structure | None = None, *, after_append: int | None = None) -> Decision:
        """The finished decision, with the response to the command. `after_append` delays the response until the log has
        completed the record of that event."""
        touched = tuple(self.touched_sessions)
        if self.events and touched:  # they may have removed members
            present = self.group.member_ids
            if not all(map(present.__contains__, touched)):
                touched = tuple([member_id for member_id in touched if member_id in present])
        return Decision(
            self.group,
            tuple(self.events),
            response,
            self.held_under,
            tuple(self.released),
            touched,
            after_append,
            tuple(self.completed_appends),
        )

    def build_after_pending_appends(self, response: Structure) -> Decision:
        """The finished decision, with a response that waits for every record that the log has written and not
        committed."""
        return self.build(response, after_append=self.group.last_pending_append)
