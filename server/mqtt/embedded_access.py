"""Who may come in to the embedded broker. amqtt finds the class by its name."""

import hmac
from dataclasses import dataclass, field

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session


class PasswordPlugin(BaseAuthPlugin):  # type: ignore[misc]  # its base is untyped
    """One user, one password: those that the coordinator itself has."""

    @dataclass
    class Config:
        """Filled in by amqtt."""

        username: str = ""
        password: str | None = field(default=None, repr=False)

    async def authenticate(self, *, session: Session) -> bool | None:
        wanted = (self._get_config_option("username"), self._get_config_option("password"))
        given = (session.username, session.password)
        return all(
            hmac.compare_digest((one or "").encode(), (other or "").encode())
            for one, other in zip(wanted, given, strict=True)
        )
