"""JoinGroup commands for tests, from plain fields."""

from typing import Any

from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.group import MemberProfile

PROFILE_FIELDS = frozenset(MemberProfile.__struct_fields__)


def join_request(**fields: Any) -> JoinGroup:
    """A JoinGroup; the fields of its `profile` are given beside its own."""
    profile = MemberProfile(**{name: value for name, value in fields.items() if name in PROFILE_FIELDS})
    return JoinGroup(profile=profile, **{name: value for name, value in fields.items() if name not in PROFILE_FIELDS})
