"""YAML in which a key that occurs twice is an error."""

from collections.abc import Hashable
from typing import Any

import yaml


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that occurs twice in a mapping; YAML itself would silently drop the first one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, None] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # SafeLoader says what is wrong with it
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key: {key.value!r}", key.start_mark)
            seen[key.value] = None
        return super().construct_mapping(node, deep)
