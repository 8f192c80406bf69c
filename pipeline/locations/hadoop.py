"""Arrow's file system for a scheme that only Hadoop supports, such as `webhdfs://`: Hadoop's connector does the work.

The driver calls it in Spark's own Java process. A task cannot reach one, so its Python process starts one on loopback,
which has Spark's jars and ends with it; the later tasks of that process use it again.
"""

import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pyarrow as pa
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyarrow import fs
from pyspark import SparkContext, SparkFiles, TaskContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home

CLASS_PATH_SETTING: Final = "spark.executor.extraClassPath"
CLASS_PATH_REMEDY: Final = f"--conf spark.driver.extraClassPath=JARS and --conf {CLASS_PATH_SETTING}=JARS"
MISSING_CLASS_ERRORS: Final = ("ClassNotFoundException", "NoClassDefFoundError")
JAVA_MEMORY: Final = "-Xmx256m"
BUFFER_BYTES: Final = 1024 * 1024


@lru_cache(maxsize=16)
def hadoop_file_system(root: str, settings: tuple[tuple[str, str], ...]) -> fs.PyFileSystem:
    """The file system at a root such as `webhdfs://host:9870`, with these settings of Hadoop.

    Raises OSError if Hadoop has no connector for the scheme, or the connector cannot be made.
    """
    java = gateway(dict(settings).get(CLASS_PATH_SETTING, ""))
    return fs.PyFileSystem(HadoopHandler(root, settings, java))


def changed_settings(configuration: Any) -> dict[str, str]:
    """The settings of one of Hadoop's configurations, a Java object, that Hadoop's jars do not have by default."""
    text = gateway().jvm.java.io.StringWriter()
    configuration.writeXml(text)
    changed = {}
    for each in ElementTree.fromstring(text.toString()).iter("property"):
        sources = [source.text or "" for source in each.iter("source")]
        if not sources or not sources[-1].endswith("-default.xml"):
            changed[each.findtext("name", "")] = each.findtext("value", "")
    return changed


class HadoopHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """What Arrow needs of a file system, done by one of Hadoop's. Paths begin with `/`."""

    def __init__(self, root: str, settings: tuple[tuple[str, str], ...], java: JavaGateway) -> None:
        self._root = root
        self._gateway = java
        self._hadoop = java.jvm.org.apache.hadoop
        with hadoop_errors():
            self._configuration = self._hadoop.conf.Configuration()
            for name, value in settings:
                self._configuration.set(name, value)
            # Hadoop's own cache would give one with older settings.
            self._system = self._hadoop.fs.FileSystem.newInstance(self._path("/").toUri(), self._configuration)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def get_type_name(self) -> str:
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        found = []
        for path in paths:
            try:
                with hadoop_errors():
                    found.append(file_info(path, self._system.getFileStatus(self._path(path))))
            except FileNotFoundError:
                found.append(fs.FileInfo(path, fs.FileType.NotFound))
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = []
        folders = [selector.base_dir]
        while folders:
            try:
                children = self._children(folders.pop())
            except FileNotFoundError:
                if not selector.allow_not_found and not found:
                    raise
                continue
            found += children
            if selector.recursive:
                folders += [each.path for each in children if each.type == fs.FileType.Directory]
        return found

    def _children(self, folder: str) -> list[fs.FileInfo]:
        with hadoop_errors():
            path = self._path(folder)
            if self._system.getFileStatus(path).isFile():
                raise NotADirectoryError(f"{folder} is a file and no folder")
            parent = folder.rstrip("/")
            return [file_info(f"{parent}/{each.getPath().getName()}", each) for each in self._system.listStatus(path)]

    def create_dir(self, path: str, recursive: bool) -> None:
        with hadoop_errors():
            self._system.mkdirs(self._path(path))

    def delete_file(self, path: str) -> None:
        with hadoop_errors():
            self._system.delete(self._path(path), False)

    def delete_dir(self, path: str) -> None:
        with hadoop_errors():
            self._system.delete(self._path(path), True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        for each in self.get_file_info_selector(fs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self.delete_dir(each.path)

    def delete_root_dir_contents(self) -> None:
        self.delete_dir_contents("/")

    def move(self, src: str, dest: str) -> None:
        """Give a file another name, and replace a file that has it, in one step if the connector can do that.

        Connectors of file systems, such as that of `webhdfs`, have a public method for it. Others have it only behind
        Hadoop's FileContext, which may remove the older file first, or have none.
        """
        with hadoop_errors():
            source, target = self._path(src), self._path(dest)
            rename = getattr(self._hadoop.fs, "Options$Rename")
            options = self._gateway.new_array(rename, 1)
            options[0] = rename.OVERWRITE
            try:
                self._system.rename(source, target, options)
            except (Py4JJavaError, Py4JNetworkError):
                raise
            except Py4JError:  # the method is not public
                self._move_by_context(source, target, options)

    def _move_by_context(self, source: Any, target: Any, options: Any) -> None:
        try:
            context = self._hadoop.fs.FileContext.getFileContext(source.toUri(), self._configuration)
        except Py4JJavaError as error:
            if java_class(error) != "UnsupportedFileSystemException":
                raise
            self._system.delete(target, False)
            if not self._system.rename(source, target):
                raise OSError(f"{source} cannot be renamed to {target}") from None
            return
        context.rename(source, target, options)

    def copy_file(self, src: str, dest: str) -> None:
        with hadoop_errors():
            self._hadoop.fs.FileUtil.copy(
                self._system, self._path(src), self._system, self._path(dest), False, self._configuration
            )

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.PythonFile:
        with hadoop_errors():
            place = self._path(path)
            reader = HadoopReader(self._system.open(place), self._system.getFileStatus(place).getLen())
        return pa.PythonFile(io.BufferedReader(reader, BUFFER_BYTES), mode="r")

    def open_output_stream(self, path: str, metadata: dict[str, str] | None) -> pa.PythonFile:
        with hadoop_errors():
            return pa.PythonFile(HadoopWriter(self._system.create(self._path(path), True)), mode="w")

    def open_append_stream(self, path: str, metadata: dict[str, str] | None) -> pa.PythonFile:
        raise NotImplementedError("no file of the pipeline is appended to")

    def _path(self, path: str) -> Any:
        return self._hadoop.fs.Path(f"{self._root}{path}")


class HadoopStream(io.RawIOBase):
    """A Python file on one of Hadoop's streams, a Java object, which is closed with it."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def close(self) -> None:
        if not self.closed:
            super().close()
            with hadoop_errors():
                self._stream.close()


class HadoopReader(HadoopStream):
    """A Python file on one of Hadoop's input streams, for reading."""

    def __init__(self, stream: Any, size_bytes: int) -> None:
        super().__init__(stream)
        self._size_bytes = size_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        with hadoop_errors():
            return int(self._stream.getPos())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = 0 if whence == io.SEEK_SET else self._size_bytes if whence == io.SEEK_END else self.tell()
        position = min(start + offset, self._size_bytes)
        with hadoop_errors():
            self._stream.seek(position)
        return position

    def readinto(self, buffer: Any) -> int:
        with hadoop_errors():
            content = self._stream.readNBytes(min(len(buffer), BUFFER_BYTES))
        buffer[: len(content)] = content
        return len(content)


class HadoopWriter(HadoopStream):
    """A Python file on one of Hadoop's output streams, for writing."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with hadoop_errors():
            for start in range(0, len(content), BUFFER_BYTES):
                self._stream.write(bytes(content[start : start + BUFFER_BYTES]))
        return len(content)


def file_info(path: str, status: Any) -> fs.FileInfo:
    if status.isDirectory():
        return fs.FileInfo(path, fs.FileType.Directory)
    return fs.FileInfo(path, fs.FileType.File, size=status.getLen(), mtime_ns=status.getModificationTime() * 1_000_000)


@contextmanager
def hadoop_errors() -> Iterator[None]:
    """Raise Java's exceptions as FileNotFoundError or OSError, with their message."""
    try:
        yield
    except Py4JJavaError as error:
        message = str(error.java_exception.getMessage() or java_class(error)).partition("\n")[0]
        if java_class(error) in ("FileNotFoundException", "NoSuchFileException"):
            raise FileNotFoundError(message) from error
        if any(each in f"{java_class(error)}: {message}" for each in MISSING_CLASS_ERRORS):
            message += f": no jar has this class; add the connector's jars with {CLASS_PATH_REMEDY}"
        raise OSError(message) from error
    except PySparkException as error:  # what PySpark makes of some of Java's exceptions, in the driver
        raise OSError(str(error) or type(error).__name__) from error
    except Py4JError as error:
        hadoop_file_system.cache_clear()
        task_gateway.cache_clear()
        raise OSError(f"the Java process of Hadoop's connector does not answer: {error}") from error


def java_class(error: Py4JJavaError) -> str:
    """The name of the exception's class in Java, without its package."""
    return str(error.java_exception.getClass().getSimpleName())


def gateway(class_path: str = "") -> JavaGateway:
    """Spark's own Java process in the driver, and elsewhere one that has Spark's jars and this class path."""
    context: Any = SparkContext._active_spark_context
    return task_gateway(class_path) if context is None else context._gateway


@lru_cache(maxsize=4)
def task_gateway(class_path: str) -> JavaGateway:
    """A new Java process, which ends with this Python process. Raises OSError if Java does not start."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it prints a trace for a Java process that has been killed
    spark_jars = Path(_find_spark_home()) / "jars"
    # An executor has the jars of `--jars` and `--packages` in this folder.
    given = f"{SparkFiles.getRootDirectory()}/*" if TaskContext.get() else ""
    places = [class_path, given, f"{spark_jars}/*"]
    try:
        port, token = launch_gateway(
            jarpath=str(next(spark_jars.glob("py4j*.jar"))),
            classpath=os.pathsep.join(each for each in places if each),
            javaopts=[JAVA_MEMORY],
            java_path=None,
            die_on_exit=True,
            enable_auth=True,
        )
    except (OSError, ValueError) as error:  # without a Java, or with one that ends before it has printed its port
        raise OSError(
            "Hadoop's connector needs Java: set JAVA_HOME for the workers, or put java on their PATH"
        ) from error
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
