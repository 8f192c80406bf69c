"""A file or a folder on a disk or in an object store: what the pipeline reads and writes beside Spark's own tables.

    place = location_of("s3a://bucket/out", spark)
    (place / "format").replace(b"2\\n")

Tasks get locations too, so they write where Spark reads. A file appears under its name once it is complete. On a disk
it is renamed. Elsewhere it is written to the task's own disk first and then copied: an object appears when all of it
has arrived, and a file in HDFS or another file system is copied under another name and then renamed.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.sql import SparkSession

from regroup.pipeline.locations.file_systems import (
    AUTHORITIES,
    COPY_BYTES,
    FILE_SYSTEM_ERRORS,
    HDFS_SCHEMES,
    SETTING_PREFIXES,
    appears_when_complete,
    local_path,
    move_over,
    remote_file_system,
    scheme_of,
    write_file,
)
from regroup.pipeline.locations.hadoop import CLASS_PATH_SETTING, changed_settings
from regroup.pipeline.locations.hdfs import hdfs_package
from regroup.storage.errors import StoreFailed


@dataclass(frozen=True, slots=True)
class Location:
    """The address of a file or folder: an absolute path on this machine, or a URL such as `s3a://bucket/runs`."""

    address: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    """Hadoop's settings for the address; they may hold keys."""

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.address.rstrip('/')}/{name}", self.settings)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The last part of the address without its last suffix: `part-0` for `part-0.parquet`."""
        return Path(self.name).stem

    @property
    def is_local(self) -> bool:
        return scheme_of(self.address) == "file"

    @property
    def path(self) -> Path:
        """The path of a file or folder on this machine's disk."""
        return Path(self.address)

    @property
    def for_spark(self) -> str:
        """The address with its scheme; Spark would look for a path without scheme in the file system `fs.defaultFS`."""
        return f"file://{self.address}" if self.is_local else self.address

    def exists(self) -> bool:
        return self.path.exists() if self.is_local else self._info().type != fs.FileType.NotFound

    def is_folder(self) -> bool:
        return self.path.is_dir() if self.is_local else self._info().type == fs.FileType.Directory

    def size_bytes(self) -> int:
        """The size of a file in bytes; 0 if there is no file."""
        return int(self._info().size or 0)

    def files(self, pattern: str = "*", *, below: bool = False) -> "dict[Location, int]":
        """The files in this folder whose names match the pattern, sorted, each with its size in bytes.

        With `below` the files in all sub-folders are included.
        """
        return self._children(pattern, fs.FileType.File, below)

    def folders(self) -> "list[Location]":
        """The folders in this folder, sorted."""
        return list(self._children("*", fs.FileType.Directory, below=False))

    def matching(self) -> "list[Location]":
        """The files that match this address, which is a pattern such as `s3a://bucket/runs/*.db`, sorted."""
        parts = self.address.split("/")
        plain = next((number for number, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts) - 1)
        folder = Location("/".join(parts[:plain]), self.settings)
        matches = re.compile(pattern_as_regex("/".join(parts[plain:]))).fullmatch
        start = len(folder.address) + 1
        found = folder.files(below=plain < len(parts) - 1)
        return [each for each in found if matches(each.address[start:])]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open this file for reading, as an Arrow file, within the `with` block. Raises FileNotFoundError."""
        with self._failures():
            system, path = self._system()
            file = system.open_input_file(path)
        with file:
            yield file

    def read_bytes(self) -> bytes:
        """The whole content of this file. Raises FileNotFoundError.

        The file is read to its end, whatever its size was before: another file may replace it meanwhile.
        """
        with self._failures():
            system, path = self._system()
            with system.open_input_stream(path) as file:
                return bytes(file.read())

    @contextmanager
    def written(self) -> Iterator[Path]:
        """A temporary path on this machine's disk to write to.

        At the end of the block the file is moved to this location; after an error it is removed.
        """
        if self.is_local:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self.path.with_name(unfinished_name(self.name))
            try:
                yield unfinished
                unfinished.replace(self.path)
            finally:
                unfinished.unlink(missing_ok=True)
            return
        with tempfile.TemporaryDirectory(prefix="regroup-", dir=scratch_folder()) as folder:
            complete = Path(folder) / self.name
            yield complete
            self._upload(complete)

    def _upload(self, complete: Path) -> None:
        """Copy a file of this machine's disk to this location. It appears, or replaces another one, in one step."""
        with complete.open("rb") as source, self._failures():
            system, path = self._system()
            scheme = scheme_of(self.address)
            if appears_when_complete(scheme):
                write_file(system, path, source)
                return
            parent, _, name = path.rpartition("/")
            arriving = f"{parent}/{unfinished_name(name)}"
            write_file(system, arriving, source)
            try:
                move_over(scheme, system, arriving, path)
            except BaseException:
                with suppress(*FILE_SYSTEM_ERRORS):
                    system.delete_file(arriving)
                raise

    def replace(self, content: bytes) -> None:
        """Write a small file in one step: a concurrent reader sees the old content or the new."""
        with self.written() as unfinished:
            unfinished.write_bytes(content)

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """Copy the file to this machine's disk, and remove the copy at the end of the block.

        Raises FileNotFoundError.
        """
        with tempfile.TemporaryDirectory(prefix="regroup-", dir=scratch_folder()) as folder:
            copy = Path(folder) / self.name
            with self._failures():
                system, path = self._system()
                with system.open_input_stream(path) as source, copy.open("wb") as target:
                    shutil.copyfileobj(source, target, COPY_BYTES)
            yield copy

    def link_to(self, target: "Location") -> None:
        """Give this file a second name in the same file system; where that cannot be, copy it."""
        if self.is_local:
            target.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.path.hardlink_to(self.path)
            except OSError:
                with target.written() as unfinished:
                    shutil.copyfile(self.path, unfinished)
            return
        if not appears_when_complete(scheme_of(self.address)):  # HDFS copies nothing by itself
            with self.copied() as copy:
                target._upload(copy)
            return
        with self._failures():
            system, path = self._system()
            system.copy_file(path, target._system()[1])

    def remove(self) -> None:
        """Remove this file, if it exists."""
        if self.is_local:
            self.path.unlink(missing_ok=True)
        elif self.exists():
            with self._failures():
                system, path = self._system()
                system.delete_file(path)

    def remove_folder(self) -> None:
        """Remove this folder with everything in it, if it exists. Raises StoreFailed if something of it is left."""
        if self.is_local:
            shutil.rmtree(self.path, ignore_errors=True)  # another process may remove it at the same time
            try:
                if self.path.exists():
                    shutil.rmtree(self.path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise StoreFailed(f"{self.address} cannot be removed: {error.strerror or error}") from error
        elif self.exists():
            with self._failures():
                system, path = self._system()
                system.delete_dir(path)

    def _children(self, pattern: str, kind: Any, below: bool) -> "dict[Location, int]":
        with self._failures():
            system, path = self._system()
            found = system.get_file_info(fs.FileSelector(path, recursive=below, allow_not_found=True))
        matches = re.compile(pattern_as_regex(pattern)).fullmatch
        chosen = sorted((each.path, each.size or 0) for each in found if each.type == kind and matches(each.base_name))
        start = len(path.rstrip("/")) + 1
        return {self / name[start:]: size for name, size in chosen}

    def _info(self) -> Any:
        with self._failures():
            system, path = self._system()
            return system.get_file_info(path)

    def _system(self) -> tuple[Any, str]:
        """Arrow's file system for the address, and the path in that file system."""
        if self.is_local:
            return fs.LocalFileSystem(), self.address
        return remote_file_system(self.address, dict(self.settings))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise StoreFailed, with the address, for errors of a file system other than this machine's."""
        try:
            yield
        except FileNotFoundError:
            raise
        except FILE_SYSTEM_ERRORS as error:
            if self.is_local:
                raise
            reason = " ".join(re.split(r"\\n\\tat ", str(error))[0].split())  # without a trace of Java
            raise StoreFailed(f"{self.address} cannot be used: {reason}") from error


LocationLike: TypeAlias = Location | Path | str
"""A file or folder as a Location, or by its path or address."""


def location_of(address: LocationLike, spark: SparkSession | None = None) -> Location:
    """The Location of an address. With a session it has the session's settings for the address.

    Raises UnknownScheme, HdfsPackageMissing, and StoreFailed if the session lacks the classes that read the address.
    """
    if isinstance(address, Location):
        return address
    text = str(address)
    scheme = scheme_of(text)
    if scheme == "file":
        return Location(os.path.realpath(local_path(text)))
    if scheme in HDFS_SCHEMES:
        hdfs_package()
    return Location(text.rstrip("/"), () if spark is None else hadoop_settings(text, spark))


def hadoop_settings(address: str, spark: SparkSession) -> tuple[tuple[str, str], ...]:
    """Those of Hadoop's settings that Arrow needs for an address, from the session's options and from core-site.xml.

    An address that Hadoop's own connector reads needs all of them, and the class path of the executors. Raises
    StoreFailed if the session has no connector for the address.
    """
    context: Any = spark.sparkContext
    settings, scheme = context._jsc.hadoopConfiguration(), scheme_of(address)
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage()).removeprefix("java.lang.ClassNotFoundException: ")
        raise StoreFailed(
            f"Spark cannot use {address}: {reason}. Give it the jars for the scheme, as docs/pipeline.md says."
        ) from error
    if scheme not in AUTHORITIES:
        class_path = context.getConf().get(CLASS_PATH_SETTING, "")
        return tuple(sorted({**changed_settings(settings), CLASS_PATH_SETTING: class_path}.items()))
    chosen: dict[str, str] = {}
    for prefix in SETTING_PREFIXES.get(scheme, ()):
        entries = settings.getPropsWithPrefix(prefix)
        chosen |= {f"{prefix}{name}": entries[name] for name in entries}
    return tuple(sorted(chosen.items()))


def scratch_folder() -> str | None:
    """The folder for a task's temporary files: Spark's own, which is removed after the application, also after a kill.

    It is None outside a task, for the system's folder.
    """
    first = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return first if os.path.isdir(first) else None


def unfinished_name(name: str) -> str:
    """A name for a file that is being written, which no other attempt takes, nor one on another machine."""
    return f".{name}.{uuid4().hex}"


def pattern_as_regex(pattern: str) -> str:
    """A shell pattern (`*`, `?`, `[0-9]`, `**`) as a regular expression for a path with slashes."""
    words = []
    for word in re.findall(r"\*\*/|\*|\?|\[[^\]/]+\]|.", pattern, re.DOTALL):
        plain = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(word)
        is_set = word.startswith("[") and len(word) > 1
        words.append(plain or (word.replace("[!", "[^") if is_set else re.escape(word)))
    return "".join(words)
