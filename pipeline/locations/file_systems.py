"""Addresses of files and folders, and Arrow's file system for each, with the settings that Hadoop has for it.

`s3a://` takes Hadoop's `fs.s3a.` settings: endpoint, endpoint.region, access.key, secret.key, session.token,
connection.ssl.enabled, path.style.access, each also for one bucket (`fs.s3a.bucket.NAME.`). Without keys both look for
them in the environment, the AWS profile and the instance's role. `hdfs://` and `viewfs://` take those of `hdfs.py`.
`gs://` and `abfs://` take what Arrow takes by default. Every other scheme goes to Hadoop's connector for it, with all
settings (`hadoop.py`).

An address means the same to Hadoop and to Arrow, or it is refused. None is taken for a path on this machine's disk.
"""

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
from pyarrow import fs

from regroup.pipeline.locations import hdfs
from regroup.pipeline.locations.hadoop import hadoop_file_system
from regroup.storage.errors import StoreError

S3_SCHEMES: Final = ("s3a", "s3")
HDFS_SCHEMES: Final = ("hdfs", "viewfs")
SETTING_PREFIX: Final = "fs.s3a."
SETTING_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(S3_SCHEMES, (SETTING_PREFIX,)),
    **dict.fromkeys(HDFS_SCHEMES, hdfs.SETTING_PREFIXES),
}
"""By scheme, how those of Hadoop's settings begin that Arrow's file system takes, too."""

BUCKET: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
AUTHORITIES: Final[Mapping[str, str]] = {
    **dict.fromkeys((*S3_SCHEMES, "gs"), BUCKET),
    **dict.fromkeys(HDFS_SCHEMES, rf"{BUCKET}(:[0-9]+)?"),
    **dict.fromkeys(("abfs", "abfss"), rf"{BUCKET}@{BUCKET}"),
}
"""By scheme, the pattern of what is between `://` and the next slash: a bucket, a host, or a container and a host."""
HADOOP_AUTHORITY: Final = rf"(({BUCKET}@)?{BUCKET}(:[0-9]+)?)?"
"""The same for all other schemes: a host, a container and a host, or nothing, if the connector knows its host."""

COPY_BYTES: Final = 4 * 1024 * 1024
FILE_SYSTEM_ERRORS: Final = (OSError, pa.ArrowException, RuntimeError)
"""What Arrow's file systems raise; hdfs-native raises RuntimeError."""

SCHEME_PATTERN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# A drive of Windows, or an address whose beginning is no scheme, such as one after a space.
NO_PATH_PATTERN: Final = re.compile(r"[A-Za-z]:[\\/]|(?!\.{0,2}/).*://", re.DOTALL)
ANONYMOUS_PROVIDER: Final = "AnonymousAWSCredentialsProvider"


class UnknownScheme(StoreError):
    """Raised for an address that no file system supports, or that two of them would read in different ways."""


def scheme_of(address: str) -> str:
    """The scheme of an address, `file` for a path without one. Raises UnknownScheme."""
    found = SCHEME_PATTERN.match(address)
    scheme = found.group(1).lower() if found else "file"
    if scheme == "file":
        if not address.strip() or (not found and NO_PATH_PATTERN.match(address)):
            raise UnknownScheme(refusal(address))
        local_path(address)
        return scheme
    authority, _, path = address[len(scheme) + 1 :].removeprefix("//").partition("/")
    if (
        not address[len(scheme) + 1 :].startswith("//")
        or not re.fullmatch(AUTHORITIES.get(scheme, HADOOP_AUTHORITY), authority)
        or not (authority or path)
    ):
        raise UnknownScheme(refusal(address))
    if path.strip("/") and {"", ".", ".."} & set(path.rstrip("/").split("/")):
        raise UnknownScheme(
            f"{address} has an empty part, or one that is . or .., and Hadoop and Arrow disagree about such addresses: "
            "write it without."
        )
    return scheme


def refusal(address: str) -> str:
    named = address if address.strip() else "An empty text"
    known = ", ".join(f"{each}://" for each in ("file", *AUTHORITIES))
    return (
        f"{named} is no address that regroup can read or write: give a path, or one that begins with {known} or "
        "another scheme of Hadoop's and a bucket or host. A file whose name has a colon is named as ./NAME."
    )


def local_path(address: str) -> str:
    """The path in an address of the scheme `file`: a path as it is, or `file:///runs`. Raises UnknownScheme."""
    if not re.match(r"file:", address, re.IGNORECASE):
        return address
    path = re.sub(r"^file:(//(localhost)?(?=/))?", "", address, flags=re.IGNORECASE)
    if not path.startswith("/") or path.startswith("//"):
        raise UnknownScheme(f"{address} names no file of this machine: write file:///, and then the path.")
    return path


def file_on_disk(text: str) -> Path:
    """The path of a file that has to be on a disk, such as a campaign's plan. Raises UnknownScheme."""
    if scheme_of(text) != "file":
        raise UnknownScheme(f"{text} is not on a disk, and must be: name a path.")
    return Path(local_path(text))


def remote_file_system(address: str, settings: Mapping[str, str]) -> tuple[Any, str]:
    """Arrow's file system for an address that is not local, and the path in it. Raises OSError, pa.ArrowInvalid.

    The path is that of the address as it is, since Hadoop does not decode `%20` either.
    """
    scheme, _, rest = address.partition("://")
    scheme, (authority, _, path) = scheme.lower(), rest.partition("/")
    chosen = tuple(sorted(settings.items()))
    if scheme in S3_SCHEMES:
        return s3_file_system(authority, chosen), rest
    if scheme in HDFS_SCHEMES:
        return hdfs.hdfs_file_system(scheme, authority, chosen), f"/{path}"
    if scheme not in AUTHORITIES:
        return hadoop_file_system(f"{scheme}://{authority}", chosen), f"/{path}"
    system, root = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
    return system, f"{root.rstrip('/')}/{path}".rstrip("/")


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


def appears_when_complete(scheme: str) -> bool:
    """Whether a file of this scheme has its name only after all of it has arrived, as in an object store."""
    return scheme in AUTHORITIES and scheme not in HDFS_SCHEMES


def move_over(scheme: str, system: Any, source: str, target: str) -> None:
    """Give a file another name; a file that has the name already is replaced. In HDFS that is one step."""
    if scheme in HDFS_SCHEMES:
        hdfs.move_over(system, source, target)
    else:
        system.move(source, target)


def write_file(system: Any, path: str, source: IO[bytes]) -> None:
    """Copy a file to this path of one of Arrow's file systems. If the copy is interrupted, no part of it is left."""
    with system.open_output_stream(path) as target:
        try:
            shutil.copyfileobj(source, target, COPY_BYTES)
        except BaseException:
            # To close the stream makes a file of what has arrived. If that fails, an older file is still there.
            with suppress(*FILE_SYSTEM_ERRORS):
                target.close()
                system.delete_file(path)
            raise
