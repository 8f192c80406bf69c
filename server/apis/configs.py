"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: a topic's settings can be changed, a broker's be shown."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

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
from regroup.server.apis.durable import reply_when_durable
from regroup.server.cluster.events import TopicConfigured
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topic_configs import (
    LIST,
    TOPIC_CONFIGS,
    check_topic_config,
    shown_topic_configs,
    topic_config,
)
from regroup.server.cluster.topics import Topic, name_is_illegal
from regroup.server.log.record_validation import Refusal
from regroup.server.net.exchange import Exchange, Handler
from regroup.server.settings import ShownSetting

_TOPIC, _BROKER = 2, 4
_SOURCE_TOPIC, _SOURCE_STATIC_BROKER, _SOURCE_DEFAULT = 1, 4, 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class ConfigApis:
    """`broker_settings` gives all that a broker shows, the coordinator's among them."""

    def __init__(self, cluster: Cluster, node_id: int, broker_settings: Callable[[], Iterable[ShownSetting]]) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._broker_settings = broker_settings

    def handlers(self) -> dict[int, Handler]:
        return {
            DescribeConfigsRequest.api_key: self.describe_configs,
            AlterConfigsRequest.api_key: self.alter_configs,
            IncrementalAlterConfigsRequest.api_key: self.incremental_alter_configs,
        }

    def describe_configs(self, exchange: Exchange) -> None:
        request = cast("DescribeConfigsRequest", exchange.request)
        results = [
            self._describe(asked, exchange.version, with_synonyms=request.include_synonyms)
            for asked in request.resources
        ]
        exchange.reply(DescribeConfigsResponse(results=results))

    def _describe(self, asked: DescribeConfigsResource, version: int, *, with_synonyms: bool) -> DescribeConfigsResult:
        topic = self._cluster.topics.by_name.get(asked.resource_name)
        refusal = self._refuse(asked.resource_type, asked.resource_name)
        if refusal is not None:
            return DescribeConfigsResult(
                error_code=refusal.code,
                error_message=refusal.text,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        if topic is not None and asked.resource_type == _TOPIC:
            rows = [
                _show(setting, _SOURCE_TOPIC if setting.name in topic.configs else None, read_only=False)
                for setting in shown_topic_configs(topic.configs, self._cluster.settings)
            ]
        else:
            rows = [_show(setting, None, read_only=True) for setting in self._broker_settings()]
        wanted = asked.configuration_keys
        chosen = [row for row in rows if wanted is None or row.name in wanted]
        return DescribeConfigsResult(
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[_fit(row, version, with_synonym=with_synonyms) for row in chosen],
        )

    def _refuse(self, resource_type: int, name: str) -> Refusal | None:
        if resource_type == _TOPIC:
            if name in self._cluster.topics.by_name:
                return None
            fault = name_is_illegal(name, {})
            if fault is not None:
                return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
        if resource_type != _BROKER:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Resources of type {resource_type} have no settings here.")
        if name not in ("", str(self._node_id)):
            text = f"Unexpected broker id, expected {self._node_id} or the empty string, but received {name}"
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        return None

    def alter_configs(self, exchange: Exchange) -> None:
        request = cast("AlterConfigsRequest", exchange.request)
        results = [self._replace(asked, exchange, request.validate_only) for asked in request.resources]
        response = AlterConfigsResponse(responses=results)
        reply_when_durable(exchange, response, self._cluster)

    def _replace(
        self, asked: AlterConfigsResource, exchange: Exchange, validate_only: bool
    ) -> AlterConfigsResourceResponse:
        configs = {entry.name: entry.value for entry in asked.configs if entry.value is not None}
        refusal = self._configure(asked.resource_type, asked.resource_name, configs, exchange, validate_only)
        return _altered(asked.resource_type, asked.resource_name, refusal)

    def incremental_alter_configs(self, exchange: Exchange) -> None:
        request = cast("IncrementalAlterConfigsRequest", exchange.request)
        results = [self._change(asked, exchange, request.validate_only) for asked in request.resources]
        response = IncrementalAlterConfigsResponse(responses=results)
        reply_when_durable(exchange, response, self._cluster)

    def _change(
        self, asked: IncrementalAlterConfigsResource, exchange: Exchange, validate_only: bool
    ) -> AlterConfigsResourceResponse:
        topic = self._cluster.topics.by_name.get(asked.resource_name)
        changed = self._changed(topic, asked.configs) if topic is not None else {}
        if isinstance(changed, Refusal):
            return _altered(asked.resource_type, asked.resource_name, changed)
        refusal = self._configure(asked.resource_type, asked.resource_name, changed, exchange, validate_only)
        return _altered(asked.resource_type, asked.resource_name, refusal)

    def _changed(self, topic: Topic, entries: Sequence[IncrementalAlterConfigsEntry]) -> dict[str, str] | Refusal:
        """The settings of the topic after these changes."""
        configs = dict(topic.configs)
        for entry in entries:
            value = entry.value or ""
            if entry.config_operation == _DELETE:
                configs.pop(entry.name, None)
            elif entry.config_operation == _SET:
                configs[entry.name] = value
            elif entry.name not in TOPIC_CONFIGS or TOPIC_CONFIGS[entry.name].kind != LIST:
                return Refusal(ErrorCode.INVALID_CONFIG, f"{entry.name} is no list: it can be set or deleted.")
            elif entry.config_operation in (_APPEND, _SUBTRACT):
                had = [word for word in topic_config(configs, entry.name, self._cluster.settings).split(",") if word]
                words = value.split(",")
                kept = [word for word in had if word not in words]
                configs[entry.name] = ",".join(kept + words if entry.config_operation == _APPEND else kept)
            else:
                return Refusal(ErrorCode.INVALID_REQUEST, f"There is no operation {entry.config_operation}.")
        return configs

    def _configure(
        self, resource_type: int, name: str, configs: dict[str, str], exchange: Exchange, validate_only: bool
    ) -> Refusal | None:
        refusal = self._refuse(resource_type, name)
        if refusal is None and resource_type == _BROKER:
            refusal = Refusal(ErrorCode.INVALID_REQUEST, "A broker's settings are fixed when it starts: use --set.")
        if refusal is not None:
            return refusal
        try:
            for each, value in configs.items():
                check_topic_config(each, value)
        except (UnknownSetting, InvalidSetting) as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        if not validate_only and configs != self._cluster.topics.by_name[name].configs:
            self._cluster.happen(TopicConfigured(name=name, configs=configs), exchange.cause())
        return None


def _show(setting: ShownSetting, source: int | None, *, read_only: bool) -> DescribeConfigsResourceResult:
    is_default = setting.text == setting.default and source is None
    otherwise = _SOURCE_DEFAULT if is_default else _SOURCE_STATIC_BROKER
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.text,
        read_only=read_only,
        is_default=is_default,
        config_source=otherwise if source is None else source,
        is_sensitive=False,
        config_type=setting.kind,
        documentation=None,
    )


def _fit(row: DescribeConfigsResourceResult, version: int, *, with_synonym: bool) -> DescribeConfigsResourceResult:
    """v0 says only whether a value is the default, later versions where it comes from."""
    if version == 0:
        return row
    row = replace(row, is_default=False)
    if not with_synonym:
        return row
    return replace(row, synonyms=[DescribeConfigsSynonym(name=row.name, value=row.value, source=row.config_source)])


def _altered(resource_type: int, name: str, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=refusal.code if refusal else ErrorCode.NONE,
        error_message=refusal.text if refusal else None,
        resource_type=resource_type,
        resource_name=name,
    )
