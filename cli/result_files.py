"""Writes the results of a command to files, in which a former result stays whole until the new one is."""

import os
from contextlib import suppress
from pathlib import Path


def write_result(path: Path, content: str | bytes) -> None:
    """Write the content to a new file and rename it, so that a crash or a full disk leaves the former content.

    What is no regular file, such as a pipe, is written in place. Raises OSError with the name of the file.
    """
    data = content.encode() if isinstance(content, str) else content
    target = path.resolve()
    if target.exists() and not target.is_file():
        path.write_bytes(data)
        return
    written = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        with written.open("wb") as file:
            if target.exists():
                written.chmod(target.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            written.unlink()
