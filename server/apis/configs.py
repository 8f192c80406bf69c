"""Handlers of requests about settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.topics import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsEntry,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from regroup.server.cluster.events import GroupConfigured, TopicConfigured
from regroup.server.cluster.group_configs import GROUP_CONFIGS, GroupConfig, check_group_configs
from regroup.server.cluster.image import topic_name_error
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.topic_configs import (
    LIST,
    TOPIC_CONFIGS,
    check_topic_config,
    describe_topic_configs,
    effective_topic_config,
)
from regroup.server.errors import RequestError
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns
from regroup.server.settings import DescribedSetting

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_SOURCE_TOPIC, _SOURCE_STATIC_BROKER, _SOURCE_DEFAULT, _SOURCE_GROUP = 1, 4, 5, 8
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_STEPS_OF_REFUSAL = 20
"""Steps that a refused entry costs, because the search for a similar setting name takes long."""
_Rows: TypeAlias = dict[tuple[int, frozenset[tuple[str, str]]], list[DescribeConfigsResourceResult]]
"""The described settings of resources. The key is the resource type with the resource's own settings, on which the rows
depend."""


class ConfigApis:
    """Handles requests about settings. Topics and groups can be configured; a broker's settings are fixed and shown.

    `broker_settings` returns all settings of a broker, those of the group coordinator among them.
    """

    def __init__(
        self, state: ClusterState, node_id: int, broker_settings: Callable[[], Iterable[DescribedSetting]]
    ) -> None:
        self._state = state
        self._node_id = node_id
        self._broker_settings = broker_settings

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            DescribeConfigsRequest.api_key: self.describe_configs,
            AlterConfigsRequest.api_key: self.alter_configs,
            IncrementalAlterConfigsRequest.api_key: self.incremental_alter_configs,
        }

    def describe_configs(self, request: DescribeConfigsRequest, exchange: Exchange) -> Turns:
        """Describe the settings of each resource. Resources with the same settings share their rows, because a request
        may name one resource, or many similar ones, many times."""
        rows: _Rows = {}
        results = []
        for resource in request.resources:
            results.append(self._describe(resource, exchange.version, rows, with_synonyms=request.include_synonyms))
            yield 1 + len(results[-1].configs) // 2
        exchange.respond(DescribeConfigsResponse(results=results))

    def _describe(
        self, resource: DescribeConfigsResource, version: int, known: "_Rows", *, with_synonyms: bool
    ) -> DescribeConfigsResult:
        resource_type, name = resource.resource_type, resource.resource_name
        try:
            self._check_resource(resource_type, name)
        except RequestError as error:
            # As in Kafka, which has a text where the settings of such a topic are altered.
            text = "" if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.text
            return DescribeConfigsResult(
                error_code=error.code, error_message=text, resource_type=resource_type, resource_name=name
            )
        if resource_type == _BROKER and not name:
            # The settings that an administrator has set for all brokers, and here none can be set.
            return DescribeConfigsResult(error_message="", resource_type=resource_type, resource_name=name, configs=[])
        own = self._own_configs(resource_type, name)
        key = resource_type, frozenset(own.items())
        if key not in known:
            rows = self._rows_of(resource_type, own)
            known[key] = [_row_for_version(row, version, with_synonym=with_synonyms) for row in rows]
        configs = known[key]
        if resource.configuration_keys:
            keys = set(resource.configuration_keys)
            configs = [row for row in configs if row.name in keys]
        return DescribeConfigsResult(error_message="", resource_type=resource_type, resource_name=name, configs=configs)

    def _rows_of(self, resource_type: int, own: dict[str, str]) -> list[DescribeConfigsResourceResult]:
        """All settings of one resource: a topic with its own settings `own`, a group, or this broker."""
        if resource_type == _TOPIC:
            return [
                _row(setting, _SOURCE_TOPIC if setting.name in own else None, read_only=False)
                for setting in describe_topic_configs(own, self._state.settings)
            ]
        if resource_type == _GROUP:
            broker = {setting.name: setting for setting in self._broker_settings()}
            return [
                _group_row(name, config, own.get(name), broker.get(config.broker_setting))
                for name, config in GROUP_CONFIGS.items()
            ]
        return [_row(setting, None, read_only=True) for setting in self._broker_settings()]

    def _own_configs(self, resource_type: int, name: str) -> dict[str, str]:
        """The settings that the resource of this type and name has of its own; empty for an unknown topic, and for a
        broker."""
        if resource_type == _GROUP:
            return self._state.image.group_configs.get(name, {})
        topic = self._state.topics.get(name) if resource_type == _TOPIC else None
        return topic.configs if topic else {}

    def _check_resource(self, resource_type: int, name: str) -> None:
        if resource_type == _TOPIC:
            if name in self._state.topics:
                return
            if name_error := topic_name_error(name, ()):
                raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, name_error)
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if resource_type == _GROUP:
            if not name:
                raise RequestError(ErrorCode.INVALID_REQUEST, "A group has a name.")
            return
        if resource_type != _BROKER:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Resources of type {resource_type} have no settings.")
        if name not in ("", str(self._node_id)):
            text = f"Unexpected broker id, expected {self._node_id} or the empty string, but received {name}"
            raise RequestError(ErrorCode.INVALID_REQUEST, text)

    def alter_configs(self, request: AlterConfigsRequest, exchange: Exchange) -> Turns:
        results = yield from self._configure_all(request.resources, exchange, request.validate_only)
        exchange.respond_when_durable(AlterConfigsResponse(responses=results), self._state.when_durable)

    def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest, exchange: Exchange) -> Turns:
        results = yield from self._configure_all(request.resources, exchange, request.validate_only)
        exchange.respond_when_durable(IncrementalAlterConfigsResponse(responses=results), self._state.when_durable)

    def _configure_all(
        self,
        resources: Sequence[AlterConfigsResource | IncrementalAlterConfigsResource],
        exchange: Exchange,
        validate_only: bool,
    ) -> Generator[int, None, list[AlterConfigsResourceResponse]]:
        """Change the settings of each resource and return a result for each entry. Where several entries name the same
        resource, all entries for that resource are refused, as in Kafka."""
        counts = Counter((each.resource_type, each.resource_name) for each in resources)
        results = []
        for each in resources:
            is_repeated = counts[each.resource_type, each.resource_name] > 1
            results.append(self._configure(each, exchange, validate_only=validate_only, is_repeated=is_repeated))
            yield (_STEPS_OF_REFUSAL if results[-1].error_code else self._state.steps_of_event) + len(each.configs)
        return results

    def _configure(
        self,
        resource: AlterConfigsResource | IncrementalAlterConfigsResource,
        exchange: Exchange,
        *,
        validate_only: bool,
        is_repeated: bool,
    ) -> AlterConfigsResourceResponse:
        resource_type, name = resource.resource_type, resource.resource_name
        code, text = ErrorCode.NONE, None
        try:
            _check_entries(resource, is_repeated=is_repeated)
            if isinstance(resource, AlterConfigsResource):
                configs = {entry.name: entry.value or "" for entry in resource.configs}
            else:
                configs = self._changed(resource_type, name, resource.configs)
            self._check_configs(resource_type, name, configs)
            if not validate_only and configs != self._own_configs(resource_type, name):
                event = GroupConfigured if resource_type == _GROUP else TopicConfigured
                self._state.record_event(event(name=name, configs=configs), exchange.cause)
        except RequestError as error:
            code, text = error.code, error.text
        return AlterConfigsResourceResponse(
            error_code=code, error_message=text, resource_type=resource_type, resource_name=name
        )

    def _changed(
        self, resource_type: int, name: str, entries: Sequence[IncrementalAlterConfigsEntry]
    ) -> dict[str, str]:
        """The settings that a topic or a group has of its own after the changes `entries`; empty for an unknown
        topic."""
        if resource_type != _GROUP and name not in self._state.topics:
            return {}
        if len({entry.name for entry in entries}) < len(entries):
            raise RequestError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        configs = dict(self._own_configs(resource_type, name))
        for entry in entries:
            value = entry.value or ""
            if not _SET <= entry.config_operation <= _SUBTRACT:
                # Kafka 4.4.0 throws an exception.
                raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown operation: {entry.config_operation}.")
            if entry.config_operation == _DELETE:
                configs.pop(entry.name, None)
            elif entry.config_operation == _SET:
                configs[entry.name] = value
            elif not _is_list(resource_type, entry.name):
                raise RequestError(ErrorCode.INVALID_CONFIG, f"{entry.name} is not a list: it can be set or deleted.")
            else:
                present = effective_topic_config(configs, entry.name, self._state.settings).split(",")
                changed = value.split(",")
                excluded = set(changed)
                remaining = [each for each in present if each and each not in excluded]
                configs[entry.name] = ",".join(remaining + changed if entry.config_operation == _APPEND else remaining)
        return configs

    def _check_configs(self, resource_type: int, name: str, configs: dict[str, str]) -> None:
        self._check_resource(resource_type, name)
        if resource_type == _BROKER:
            text = "A broker's settings are fixed when it starts: use --set."
            raise RequestError(ErrorCode.INVALID_REQUEST, text)
        try:
            if resource_type == _GROUP:
                check_group_configs(self._state.group_settings, configs)
                return
            for key, value in configs.items():
                check_topic_config(key, value)
        except (UnknownSetting, InvalidSetting) as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _is_list(resource_type: int, name: str) -> bool:
    """Whether the value of this setting is a list, so that values can be appended to it. No setting of groups that is
    served is a list."""
    return resource_type == _TOPIC and name in TOPIC_CONFIGS and TOPIC_CONFIGS[name].type_id == LIST


def _check_entries(resource: AlterConfigsResource | IncrementalAlterConfigsResource, *, is_repeated: bool) -> None:
    """Check a request's entry for one resource as Kafka does; `is_repeated` says that other entries name the same
    resource. Raises RequestError."""
    if is_repeated:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    counts = Counter(entry.name for entry in resource.configs)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The request names {repeated[0]} more than once.")
    for entry in resource.configs:
        is_deleted = isinstance(entry, IncrementalAlterConfigsEntry) and entry.config_operation == _DELETE
        if entry.value is None and not is_deleted:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{entry.name} has no value.")


def _group_row(
    name: str, config: GroupConfig, own: str | None, broker: DescribedSetting | None
) -> DescribeConfigsResourceResult:
    """The description of one setting of a group. Its value is the group's own, or else the broker's, or else the
    default; the synonyms list all of these that exist."""
    values = [DescribeConfigsSynonym(name=config.broker_setting, value=config.default, source=_SOURCE_DEFAULT)]
    if broker is not None and broker.text != config.default:
        values.insert(0, DescribeConfigsSynonym(name=broker.name, value=broker.text, source=_SOURCE_STATIC_BROKER))
    if own is not None:
        values.insert(0, DescribeConfigsSynonym(name=name, value=own, source=_SOURCE_GROUP))
    return DescribeConfigsResourceResult(
        name=name,
        value=values[0].value,
        read_only=False,
        is_default=values[0].source == _SOURCE_DEFAULT,
        config_source=values[0].source,
        is_sensitive=False,
        synonyms=values,
        config_type=config.type_id,
        documentation=None,
    )


def _row(setting: DescribedSetting, source: int | None, *, read_only: bool) -> DescribeConfigsResourceResult:
    is_default = setting.text == setting.default and source is None
    if source is None:
        source = _SOURCE_DEFAULT if is_default else _SOURCE_STATIC_BROKER
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.text,
        read_only=read_only,
        is_default=is_default,
        config_source=source,
        is_sensitive=False,
        config_type=setting.type_id,
        documentation=None,
    )


def _row_for_version(
    row: DescribeConfigsResourceResult, version: int, *, with_synonym: bool
) -> DescribeConfigsResourceResult:
    """Return the described setting in the form of the response's `version`: v0 says only whether the value is the
    default, later versions say where it comes from. `with_synonym` says whether the request asks for synonyms."""
    if version == 0:
        return replace(row, synonyms=[])
    if not with_synonym:
        return replace(row, is_default=False, synonyms=[])
    own_name = DescribeConfigsSynonym(name=row.name, value=row.value, source=row.config_source)
    return replace(row, is_default=False, synonyms=row.synonyms or [own_name])
