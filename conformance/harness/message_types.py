"""Two helpers for the types of messages: a response as that of its API, and the name of a request's API."""

from typing import TypeVar

from regroup.protocol.apis import APIS
from regroup.protocol.message import Message

AnyResponse = TypeVar("AnyResponse", bound=Message)


def response_as(response_type: type[AnyResponse], response: Message) -> AnyResponse:
    """The same response, with the type of its API's responses. Raises an error if it is of another type."""
    assert type(response) is response_type, f"{type(response).__name__} instead of {response_type.__name__}"
    return response


def api_name(request: Message) -> str:
    """Kafka's name of the request's API, such as `JoinGroup`."""
    return APIS[request.api_key].name
