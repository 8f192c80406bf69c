"""A copy of the project in which one file at a time is mutated. The checkout itself is never changed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.sites import Mutation

ROOT = Path(__file__).parents[2]


class ProjectCopy:
    """The files of the project that git does not ignore, in another folder, with the namespace `regroup`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in self.list_files():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, folder / path)
        namespace = folder / "build" / "editable" / "regroup"
        namespace.mkdir(parents=True)
        for marker in sorted(folder.glob("*/py.typed")):
            (namespace / marker.parent.name).symlink_to(marker.parent)
        (namespace / "__main__.py").symlink_to(folder / "cli" / "__main__.py")

    @staticmethod
    def list_files() -> list[Path]:
        """The paths of the files of the checkout that are copied, below its folder, in their order."""
        command = ["git", "ls-files", "-coz", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
        return sorted(Path(name) for name in set(listed.stdout.split("\0")) if name and (ROOT / name).is_file())

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that imports this copy. It writes no byte code, which could outlive a mutant."""
        paths = (self.folder / "build" / "editable", self.folder)
        return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """Write the mutant, and the original again at the end."""
        path = self.folder / mutation.path
        source = path.read_bytes()
        path.write_bytes(mutation.apply(source))
        try:
            yield
        finally:
            path.write_bytes(source)
