"""Build hook of the editable install: puts every room under one folder named `regroup`.

The rooms (protocol, storage, coordinator …) stand at the top of the repository, and import as `regroup.protocol` and
so on. The wheel maps them there with hatchling's `sources`. An editable install and the type checker need a folder
that looks the same, so this hook makes `build/editable/regroup` with one link for each room.
"""

import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = Path("build", "editable", "regroup")


class LinkRooms(BuildHookInterface):  # type: ignore[misc]
    """Links each room into `build/editable/regroup` before an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            return
        root = Path(self.root)
        folder = root / EDITABLE
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for marker in sorted(root.glob("*/py.typed")):
            (folder / marker.parent.name).symlink_to(marker.parent, target_is_directory=True)
