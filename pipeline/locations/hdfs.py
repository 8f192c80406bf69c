"""Arrow's file system for HDFS, through the package hdfs-native, which needs neither Java nor a library of Hadoop.

Arrow's own HadoopFileSystem would need `libhdfs` beside each Python, which no package of PyPI, Maven or Debian has. It
also cannot replace a file in one step: before it moves a file over another one, it deletes that one.
"""

from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from pyarrow import fs

from regroup.storage.errors import StoreError

SETTING_PREFIXES: Final = (
    "dfs.nameservices",
    "dfs.ha.namenodes.",
    "dfs.namenode.rpc-address.",
    "dfs.client.failover.",
    "fs.viewfs.mounttable.",
)
"""How those of Hadoop's settings begin that name servers and mounts; the package also reads HADOOP_CONF_DIR."""


class HdfsPackageMissing(StoreError):
    """Raised for an address of HDFS if the package hdfs-native is not installed."""


def hdfs_package() -> Any:
    """The module with the file systems of hdfs-native. Raises HdfsPackageMissing."""
    try:
        return import_module("hdfs_native.fsspec")
    except ImportError as error:
        raise HdfsPackageMissing(
            "hdfs:// and viewfs:// need the package hdfs-native in the Python of the driver and of each worker: "
            "pip install hdfs-native"
        ) from error


@lru_cache(maxsize=16)
def hdfs_file_system(scheme: str, authority: str, settings: tuple[tuple[str, str], ...]) -> Any:
    """The file system of a name node or name service, for `hdfs`, or of mounts, for `viewfs`."""
    package = hdfs_package()
    kind = package.HdfsFileSystem if scheme == "hdfs" else package.ViewfsFileSystem
    return fs.PyFileSystem(fs.FSSpecHandler(kind(authority, **dict(settings))))


def move_over(system: Any, source: str, target: str) -> None:
    """Give a file another name in one step; a file that has the name already is replaced.

    Arrow's own `move` would refuse that here.
    """
    system.handler.fs.mv(source, target, overwrite=True)
