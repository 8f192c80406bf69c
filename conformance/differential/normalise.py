"""Answers without what must differ between two brokers: ids have names, lists have an order."""

import re
from collections.abc import Mapping

import msgspec

from regroup.conformance.harness.expect import offsets_in
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.describe import DescribedGroup
from regroup.protocol.messages.group import JoinGroupResponse
from regroup.protocol.messages.offsets import OffsetFetchResponse

OF_MOVE = " of move "
"""Between the actor and the number of the move, in the name of an id."""

Seen = dict[str, object]
"""An answer, or a group, field by field."""

RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""The end of an id that was never given a name."""


class Names:
    """What the ids of one group are called. An id's name is the move with which it came into the world."""

    def __init__(self, group_id: str) -> None:
        self._names: dict[str, str] = {"": "", group_id: "the group"}
        self._ids: dict[str, str] = {}

    def give(self, member_id: str, name: str) -> None:
        """Call an id so, unless it has a name."""
        if member_id not in self._names:
            self._names[member_id] = name
            self._ids[name] = member_id

    def id_of(self, name: str) -> str:
        """The id that is called so, or else the last one of the same actor: a static member's may yet be replaced."""
        actor, _, _ = name.partition(OF_MOVE)
        own = [each for each in self._ids if each.startswith(actor + OF_MOVE)]
        return self._ids[name if name in self._ids else own[-1]] if own else ""

    def answer(self, answer: Message | BaseException) -> Seen:
        """One answer, or why there is none."""
        if not isinstance(answer, Message):
            return {"failure": str(answer)}
        if isinstance(answer, OffsetFetchResponse):
            return {"offsets": dict(sorted(offsets_in(answer).items()))}
        return {
            name: self._plain(name, value)
            for name, value in msgspec.structs.asdict(answer).items()
            if name != "throttle_time_ms"
        }

    def group(self, group: DescribedGroup) -> Seen:
        """A group as DescribeGroups shows it."""
        members: Mapping[str, object] = {
            str(self._plain("member_id", each.member_id)): (
                each.group_instance_id,
                each.member_metadata,
                each.member_assignment,
            )
            for each in group.members
        }
        return {
            "state": group.group_state,
            "type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": {name: members[name] for name in sorted(members)},
        }

    def _plain(self, field: str, value: object) -> object:
        if field == "error_code":
            assert isinstance(value, int)
            return ErrorCode.named(value)
        if isinstance(value, str):
            return self._names.get(value) or RANDOM_ID.sub("?", value)
        if isinstance(value, msgspec.Struct):
            return {name: self._plain(name, each) for name, each in msgspec.structs.asdict(value).items()}
        if isinstance(value, list):
            return sorted((self._plain("", each) for each in value), key=repr)
        return value


def given_id(answer: Message | BaseException) -> str:
    """The member id that an answer tells; empty if it tells none."""
    return answer.member_id if isinstance(answer, JoinGroupResponse) else ""
