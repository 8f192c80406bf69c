"""What a client of the classic protocol sends in its JoinGroup for each of its assignors."""

import msgspec

__all__ = ["SupportedProtocol"]


class SupportedProtocol(msgspec.Struct, frozen=True, array_like=True):
    """An assignor that a member supports, and the member's subscription as that assignor encodes it."""

    name: str
    metadata: bytes = b""
