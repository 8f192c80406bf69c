"""The address of an MQTT broker, and the credentials for it, which are never a part of the address.

mqtt://broker.local                     port 1883, the cluster `main`
mqtts://broker.local:8884/classroom-7   encrypted, another port, the cluster `classroom-7`
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self
from urllib.parse import quote, unquote, urlsplit

DEFAULT_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
DEFAULT_CLUSTER: Final = "main"
_EXAMPLE: Final = "write mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS, and /CLUSTER after it if needed"


@dataclass(frozen=True, slots=True)
class MqttAddress:
    """An MQTT broker and a cluster name; several emulated clusters can share one broker."""

    host: str
    port: int
    is_encrypted: bool = False
    cluster: str = DEFAULT_CLUSTER

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.is_encrypted else 'mqtt'}://{host}:{self.port}/{quote(self.cluster, safe='')}"


def parse_mqtt_address(text: str) -> MqttAddress:
    """Read `mqtt://HOST[:PORT][/CLUSTER]`, or `mqtts://` for TLS. Raises ValueError, whose text shows no password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"invalid MQTT address; {_EXAMPLE}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "an MQTT address must not contain user and password, because every user of this machine can read them: "
            "set REGROUP_MQTT_USERNAME and REGROUP_MQTT_PASSWORD, or put them into a file for --mqtt-settings"
        )
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise ValueError(f"invalid MQTT address: {text!r}; {_EXAMPLE}")
    cluster = unquote(parts.path.strip("/")) or DEFAULT_CLUSTER
    if "/" in cluster:
        raise ValueError(f"invalid cluster name: {cluster!r}; '/' is not allowed")
    return MqttAddress(parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.scheme == "mqtts", cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttAccess:
    """User, password and certificates for an MQTT broker. Files are PEM."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """Certificates of the authorities that may sign the broker's certificate; None for those of this machine."""
    cert_file: str | None = None
    """The client's certificate, for a broker that requires one."""
    key_file: str | None = None

    @classmethod
    def from_settings(cls, environment: Mapping[str, str], settings: Mapping[str, object] = {}) -> Self:
        """Read `REGROUP_MQTT_USERNAME`, `…_PASSWORD`, `…_CA_FILE`, `…_CERT_FILE`, `…_KEY_FILE` from the environment,
        or else `username` and so on from the settings of a file. Raises ValueError for unknown or invalid settings.
        """
        names = [each.name for each in fields(cls)]
        for name, value in settings.items():
            if name not in names:
                raise ValueError(f"unknown MQTT setting {name!r}; settings: {', '.join(names)}")
            if not isinstance(value, str):
                raise ValueError(f"the MQTT setting {name} must be text in quotes")
        found = {name: environment.get(f"REGROUP_MQTT_{name.upper()}") or settings.get(name) for name in names}
        if found["password"] and not found["username"]:
            raise ValueError("an MQTT password is set and no user: set REGROUP_MQTT_USERNAME, too")
        return cls(**{name: str(value) for name, value in found.items() if value})

    def tls_context(self, address: MqttAddress) -> ssl.SSLContext | None:
        """The TLS context for a connection to this address; None if the address is not encrypted.

        Raises ValueError if certificates are set without encryption, or cannot be loaded.
        """
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
            raise ValueError(f"cannot load the certificates in {names}: {error}") from None
        return context
