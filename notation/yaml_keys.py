"""A YAML loader that refuses a mapping in which a key occurs twice."""

from collections.abc import Hashable
from typing import Any

import yaml


class UniqueKeyLoader(yaml.SafeLoader):
    """A safe YAML loader that raises an error for a key that occurs twice in a mapping. PyYAML itself would silently
    drop the first one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, None] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # SafeLoader says what is wrong with it
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key: {key.value!r}", key.start_mark)
            seen[key.value] = None
        return super().construct_mapping(node, deep)
