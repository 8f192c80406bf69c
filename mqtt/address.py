"""Where an MQTT broker is, and how to come in. The address is typed; user and password never are.

mqtt://broker.local                     port 1883, the cluster `main`
mqtts://broker.local:8884/classroom-7   encrypted, another port, the cluster `classroom-7`
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
DEFAULT_CLUSTER: Final = "main"
VARIABLE: Final = "REGROUP_MQTT_{}"


@dataclass(frozen=True, slots=True)
class MqttAddress:
    """A broker, and which cluster on it: several coordinators may share one broker."""

    host: str
    port: int
    is_encrypted: bool = False
    cluster: str = DEFAULT_CLUSTER

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.is_encrypted else 'mqtt'}://{host}:{self.port}/{quote(self.cluster, safe='')}"


def parse_mqtt(text: str) -> MqttAddress:
    """`mqtt://HOST[:PORT][/CLUSTER]`, or `mqtts://` for TLS. ValueError says what is wrong, and never a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"this is no MQTT address; {_EXAMPLE}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "user and password do not belong into the address, where everybody on this machine can read them: "
            "put them into REGROUP_MQTT_USERNAME and REGROUP_MQTT_PASSWORD, or into a file for --mqtt-settings"
        )
    if parts.scheme not in PORTS or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise ValueError(f"{text!r} is no MQTT address; {_EXAMPLE}")
    return MqttAddress(parts.hostname, port or PORTS[parts.scheme], parts.scheme == "mqtts", _cluster_in(parts))


_EXAMPLE: Final = "write mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS, and /CLUSTER behind it if need be"


def _cluster_in(parts: SplitResult) -> str:
    cluster = unquote(parts.path.strip("/")) or DEFAULT_CLUSTER
    if "/" in cluster:
        raise ValueError(f"{cluster!r} is no name for a cluster: it has no / in it")
    return cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttAccess:
    """Who we are to the broker, and whom we trust. Files are PEM."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """Who may have signed the broker's certificate, in place of those that this machine trusts."""
    cert_file: str | None = None
    """Our own certificate, where the broker asks for one."""
    key_file: str | None = None

    @classmethod
    def from_settings(cls, environment: Mapping[str, str], settings: Mapping[str, object] = {}) -> Self:
        """From `REGROUP_MQTT_USERNAME`, `…_PASSWORD`, `…_CA_FILE`, `…_CERT_FILE`, `…_KEY_FILE`, or the same names in
        small letters from a file of settings; the environment comes first. ValueError for what nobody knows.
        """
        names = [each.name for each in fields(cls)]
        for name, value in settings.items():
            if name not in names:
                raise ValueError(f"there is no MQTT setting {name}; known are {', '.join(names)}")
            if not isinstance(value, str):
                raise ValueError(f"the MQTT setting {name} must be text in quotes")
        found = {name: environment.get(VARIABLE.format(name.upper())) or settings.get(name) for name in names}
        if found["password"] and not found["username"]:
            raise ValueError("there is an MQTT password and no user: set REGROUP_MQTT_USERNAME, too")
        return cls(**{name: str(value) for name, value in found.items() if value})

    def tls_for(self, address: MqttAddress) -> ssl.SSLContext | None:
        """What encrypts the connection, None for a plain one. ValueError if a file is missing or does not fit."""
        if not address.is_encrypted:
            if self.ca_file or self.cert_file:
                raise ValueError(f"certificates are set, but {address} is not encrypted: write mqtts://")
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(name for name in (self.ca_file, self.cert_file, self.key_file) if name)
            raise ValueError(f"the certificates in {names} cannot be used: {error}") from None
        return context
