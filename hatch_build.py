"""Build hook: puts every package below the namespace `regroup`, in the wheel and for an editable install.

The packages (protocol, storage, coordinator …) are the folders at the top of the repository with a `py.typed`, and are
imported as `regroup.protocol` and so on. A wheel includes them by that path. An editable install and the type checker
need a folder that looks like the wheel: `build/editable/regroup`, with one link for each package. The pytest plugin
stands beside `regroup`.
"""

import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = Path("build", "editable")
PLUGIN = "regroup_pytest.py"


class PackagesBelowRegroup(BuildHookInterface):  # type: ignore[misc]
    """Maps each package to `regroup/PACKAGE`, and cli/__main__.py also to `regroup/__main__.py`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sources = {f"regroup/{each.parent.name}": each.parent for each in sorted(root.glob("*/py.typed"))}
        sources["regroup/__main__.py"] = root / "cli" / "__main__.py"
        sources[PLUGIN] = root / PLUGIN
        if version == "editable":
            self._link(sources, root / EDITABLE)
        else:
            build_data["force_include"] |= {str(source): name for name, source in sources.items()}

    def _link(self, sources: dict[str, Path], folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "regroup").mkdir(parents=True)
        for name, source in sources.items():
            (folder / name).symlink_to(source, target_is_directory=source.is_dir())
