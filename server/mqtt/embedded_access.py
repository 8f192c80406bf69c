"""The password check of the embedded MQTT broker, as a plugin that amqtt imports by its name."""

import hmac
from dataclasses import dataclass, field

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session


class PasswordPlugin(BaseAuthPlugin):  # type: ignore[misc]  # its base is untyped
    """Admits clients with the user and password of the coordinator itself."""

    @dataclass
    class Config:
        """The settings; amqtt fills them in."""

        username: str = ""
        password: str | None = field(default=None, repr=False)

    async def authenticate(self, *, session: Session) -> bool | None:
        expected = (self._get_config_option("username"), self._get_config_option("password"))
        given = (session.username, session.password)
        return all(
            hmac.compare_digest((one or "").encode(), (other or "").encode())
            for one, other in zip(expected, given, strict=True)
        )
