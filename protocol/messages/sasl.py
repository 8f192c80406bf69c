"""Messages of SASL authentication: SaslHandshake and SaslAuthenticate. The broker does not serve them; a client may
need them to reach another broker.
"""

from typing import Annotated

from regroup.protocol.fields import Bytes, Int16, Int64, Text, ignorable, since
from regroup.protocol.message import Message

__all__ = ["SaslHandshakeRequest", "SaslHandshakeResponse", "SaslAuthenticateRequest", "SaslAuthenticateResponse"]


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    """Names the SASL mechanism that the client wants to use. After v0 the client sends raw tokens, after v1
    SaslAuthenticate requests."""

    mechanism: Text


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    """The mechanisms that the broker supports; code 33 if it does not support the named one."""

    error_code: Int16 = 0
    mechanisms: list[Text]


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """The client's next token of the SASL mechanism."""

    auth_bytes: Bytes


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """The broker's answer to the client's token. v1 adds the lifetime of the session (KIP-368)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, since(1), ignorable] = 0
