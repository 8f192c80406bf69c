"""The password check of the embedded MQTT broker, as a plugin that amqtt imports by its name."""

import hmac
from dataclasses import dataclass, field

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session


class PasswordPlugin(BaseAuthPlugin):  # type: ignore[misc]  # its base is untyped
    """Accepts a client only if it gives the user name and password that the coordinator itself uses for this MQTT
    broker."""

    @dataclass
    class Config:
        """The user name and password that clients must give. amqtt creates it from the configuration of the broker."""

        username: str = ""
        password: str | None = field(default=None, repr=False)

    async def authenticate(self, *, session: Session) -> bool | None:
        expected = (self._get_config_option("username"), self._get_config_option("password"))
        given = (session.username, session.password)
        return all(
            hmac.compare_digest((one or "").encode(), (other or "").encode())
            for one, other in zip(expected, given, strict=True)
        )
