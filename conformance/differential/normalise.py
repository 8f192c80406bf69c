"""Normalised responses: without what must differ between two brokers, such as member ids and the order of lists."""

import re

import msgspec

from regroup.conformance.harness.expect import fetched_offsets
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.describe import DescribedGroup
from regroup.protocol.messages.offsets import OffsetFetchResponse

MOVE_SEPARATOR = " of move "
"""The text between actor and move number in the name of a member id."""

NormalisedFields = dict[str, object]
"""A response or a group, by field."""

RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""The end of a member id that has no name."""


class MemberIdNames:
    """Names for the member ids of one group: each is named after the move with which the broker assigned it."""

    def __init__(self, group_id: str) -> None:
        self._names: dict[str, str] = {"": "", group_id: "the group"}
        self._ids: dict[str, str] = {}

    def add(self, member_id: str, name: str) -> None:
        """Name a member id, unless it has a name."""
        if member_id not in self._names:
            self._names[member_id] = name
            self._ids[name] = member_id

    def id_of(self, name: str) -> str:
        """The id with this name, or the last one of its actor, whose id may be replaced later; empty if it has none."""
        actor, _, _ = name.partition(MOVE_SEPARATOR)
        of_actor = [each for each in self._ids if each.startswith(actor + MOVE_SEPARATOR)]
        return self._ids[name if name in self._ids else of_actor[-1]] if of_actor else ""

    def normalise_response(self, response: Message | BaseException) -> NormalisedFields:
        """The fields of a response, or the reason why there is none."""
        if not isinstance(response, Message):
            return {"failure": str(response)}
        if isinstance(response, OffsetFetchResponse):
            return {"offsets": dict(sorted(fetched_offsets(response).items()))}
        fields = msgspec.structs.asdict(response)
        fields.pop("throttle_time_ms", None)
        return {name: self._normalise(name, value) for name, value in fields.items()}

    def normalise_group(self, group: DescribedGroup) -> NormalisedFields:
        """State, protocol type, protocol name and members of a group."""
        members = {
            str(self._normalise("member_id", member.member_id)): (
                member.group_instance_id,
                member.member_metadata,
                member.member_assignment,
            )
            for member in group.members
        }
        return {
            "state": group.group_state,
            "type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": dict(sorted(members.items())),
        }

    def _normalise(self, field: str, value: object) -> object:
        if field == "error_code":
            assert isinstance(value, int)
            return ErrorCode.name_of(value)
        if isinstance(value, str):
            return self._names.get(value) or RANDOM_ID.sub("?", value)
        if isinstance(value, msgspec.Struct):
            return {name: self._normalise(name, each) for name, each in msgspec.structs.asdict(value).items()}
        if isinstance(value, list):
            return sorted((self._normalise("", each) for each in value), key=repr)
        return value
