"""Finds Arrow's file system for an address, with the settings that Hadoop's connector has for the same address.

`s3a://` takes Hadoop's `fs.s3a.` settings: endpoint, endpoint.region, access.key, secret.key, session.token,
connection.ssl.enabled, path.style.access, each also for one bucket (`fs.s3a.bucket.NAME.`). Without keys both look for
them in the environment, the AWS profile and the instance's role. The other schemes take what Arrow takes by default.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pyarrow import fs

from regroup.storage.errors import StoreError

S3_SCHEMES: Final = ("s3a", "s3")
ARROW_SCHEMES: Final = ("hdfs", "viewfs", "gs", "abfs", "abfss")
REMOTE_SCHEMES: Final = (*S3_SCHEMES, *ARROW_SCHEMES)
SETTING_PREFIX: Final = "fs.s3a."

SCHEME_PATTERN: Final = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]+):/|({'|'.join(REMOTE_SCHEMES)}|file):")
ANONYMOUS_PROVIDER: Final = "AnonymousAWSCredentialsProvider"


class UnknownScheme(StoreError):
    """Raised for an address whose scheme no file system supports."""


def scheme_of(address: str) -> str:
    """The scheme of an address, `file` for a path without one. Raises UnknownScheme."""
    found = SCHEME_PATTERN.match(address)
    scheme = (found.group(1) or found.group(2)).lower() if found else "file"
    if scheme != "file" and (scheme not in REMOTE_SCHEMES or not re.match(r"[^:]+://[^/]", address)):
        known = ", ".join(f"{each}://" for each in ("file", *REMOTE_SCHEMES))
        raise UnknownScheme(
            f"{address} is no address that regroup can read or write: give a path, or one that begins with {known} "
            "and a bucket or host. A file whose name has a colon is named as ./NAME."
        )
    return scheme


def local_path(address: str) -> str:
    """The path in an address of the scheme `file`: a path as it is, or `file:///runs`. Raises UnknownScheme."""
    if not re.match(r"file:", address, re.IGNORECASE):
        return address
    path = re.sub(r"^file:(//(localhost)?(?=/))?", "", address, flags=re.IGNORECASE)
    if not path.startswith("/") or path.startswith("//"):
        raise UnknownScheme(f"{address} names no file of this machine: write file:///, and then the path.")
    return path


def remote_file_system(address: str, settings: Mapping[str, str]) -> tuple[Any, str]:
    """Arrow's file system for an address that is not local, and the path in it. Raises OSError, pa.ArrowInvalid."""
    scheme, _, path = address.partition("://")
    if scheme.lower() in S3_SCHEMES:
        return s3_file_system(path.partition("/")[0], tuple(sorted(settings.items()))), path
    system, path = fs.FileSystem.from_uri(address)
    return system, path


@lru_cache(maxsize=64)
def s3_file_system(bucket: str, settings: tuple[tuple[str, str], ...]) -> Any:
    """The file system of one bucket, with Hadoop's settings for it.

    All calls with the same arguments share one, since each file system starts threads.
    """
    values = dict(settings)

    def setting(name: str) -> str | None:
        return values.get(f"{SETTING_PREFIX}bucket.{bucket}.{name}") or values.get(f"{SETTING_PREFIX}{name}") or None

    endpoint = setting("endpoint") or ""
    is_plain = endpoint.startswith("http://") or (setting("connection.ssl.enabled") or "true").lower() == "false"
    options = {
        "access_key": setting("access.key"),
        "secret_key": setting("secret.key"),
        "session_token": setting("session.token"),
        "region": setting("endpoint.region"),
        "anonymous": ANONYMOUS_PROVIDER in (setting("aws.credentials.provider") or ""),
    }
    if endpoint:
        options["endpoint_override"] = re.sub(r"^https?://", "", endpoint)
        options["scheme"] = "http" if is_plain else "https"
        options["force_virtual_addressing"] = (setting("path.style.access") or "false").lower() != "true"
    return fs.S3FileSystem(**{name: value for name, value in options.items() if value})
