"""What a client gets whose request is not served or cannot be handled: mostly a closed connection, as from Kafka."""

from typing import Final

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import TooLong, Unencodable
from regroup.protocol.fields import Versions
from regroup.protocol.frames import encode_response
from regroup.protocol.messages.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from regroup.storage.errors import StoreError

UNENCODABLE_RESPONSE: Final = "the response cannot be sent"
"""Begins the reason for closing a connection whose version cannot carry a value of a response."""


def reason_of_failure(error: Exception, api_key: int) -> str | None:
    """Why a request of this API that failed with `error` closes its connection, as text for the log; None if the error
    is a defect of the program."""
    if isinstance(error, TooLong):
        return f"the response to API {api_key} is too large: {error}; ask for less, or raise --max-response-bytes"
    if isinstance(error, Unencodable):
        return f"{UNENCODABLE_RESPONSE}: {error}"
    return f"the store has failed: {error}" if isinstance(error, StoreError) else None


def encode_supported_versions(correlation_id: int, versions: Versions) -> bytes:
    """The response to ApiVersions in a version that is not served.

    It has the served versions, in the oldest version of the response, so that the client can use one of them (KIP-511).
    """
    entry = ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=versions.first, max_version=versions.last)
    body = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
    return encode_response(ApiVersionsRequest.api_key, 0, correlation_id, body)
