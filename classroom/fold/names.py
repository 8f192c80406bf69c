"""Short names for the members of a group's whole history: the client id, and as much of the member id as it takes."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from regroup.coordinator.group import MemberId

LEAST_DIGITS: Final = 4
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def member_names(clients: Iterable[tuple[MemberId, str]]) -> Mapping[MemberId, str]:
    """The name of each member id, from pairs of member id and client id.

    A client id of one member alone is its name. Others get the first digits of the member id's UUID, `anna-1f2e`: four,
    or more if these are the same.
    """
    by_client: dict[str, dict[MemberId, None]] = defaultdict(dict)
    for member_id, client_id in clients:
        by_client[client_id][member_id] = None
    names: dict[MemberId, str] = {}
    for client_id, member_ids in by_client.items():
        rests = {each: _without_client(each, client_id) for each in member_ids}
        digits = _digits_that_differ(list(rests.values()))
        for member_id, rest in rests.items():
            alone = client_id and len(member_ids) == 1
            names[member_id] = client_id if alone else "-".join(filter(None, (client_id, rest[:digits])))
    return names


def _without_client(member_id: MemberId, client_id: str) -> str:
    """The UUID at the end of a member id; if it does not end in one, the part after the client id."""
    uuid = _UUID.search(member_id)
    return uuid[0] if uuid else member_id.removeprefix(client_id).lstrip("-") or member_id


def _digits_that_differ(rests: list[str]) -> int:
    longest = max(map(len, rests))
    enough = (count for count in range(LEAST_DIGITS, longest) if len({each[:count] for each in rests}) == len(rests))
    return next(enough, longest)
