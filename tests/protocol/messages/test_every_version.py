"""Every message in every version: encoded and decoded, compared with Kafka's definitions, and malformed bytes.

Two other libraries agree on the bytes. Kafka's definitions come from kafka-python's package, and, where Maven can
fetch it, from the jar of the newest Apache Kafka.

kio and kafka-python only get bytes that we encoded: an impossible length makes kio abort.
"""

import inspect
import io
import json
import re
import warnings
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any
from zipfile import ZipFile

import kio.index
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from regroup.protocol.apis import APIS
from regroup.protocol.codec.codec import decode, encode
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.fields import NO_UUID, FixedWidth, LengthPrefixed, Versions
from regroup.protocol.message import ListOf, Message, MessageField, Structure, WireType, fields_of
from regroup.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.conformance.apache_kafka import KafkaUnavailable, kafka_jars

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its definitions in an outdated way
    from kafka.protocol import admin, consumer, metadata, producer, sasl

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
VERSIONS = [
    (message, version) for message in MESSAGES for version in range(message.versions.first, message.versions.last + 1)
]


def version_param(message: type[Message], version: int, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(message, version, id=f"{message.__name__}-v{version}", marks=marks)


EVERY_VERSION = [version_param(message, version) for message, version in VERSIONS]
WITH_MIDDLE_VERSIONS_SLOW = [
    version_param(
        message, version, *([] if version in (message.versions.first, message.versions.last) else [pytest.mark.slow])
    )
    for message, version in VERSIONS
]
EVERY_MESSAGE = [pytest.param(message, id=message.__name__) for message in MESSAGES]
A_FEW = settings(max_examples=3, suppress_health_check=list(HealthCheck))
BITS = {"b": 8, "h": 16, "i": 32, "q": 64}


@cache
def values(structure: type[Structure], version: int) -> st.SearchStrategy[Any]:
    """Any value that this version can carry."""
    carried = {field.name: field_values(field, version) for field in fields_of(structure) if version in field.carried}
    return st.fixed_dictionaries(carried).map(lambda given: structure(**given))


def field_values(field: MessageField, version: int) -> st.SearchStrategy[Any]:
    if isinstance(field.type, FixedWidth) and field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if isinstance(field.type, FixedWidth) and field.type.code == "q" and "time" in field.name:
        return st.integers(0, 2**31).map(lambda seconds: seconds * 1000)  # kio drops milliseconds
    of_type = type_values(field.type, version)
    return st.none() | of_type if version in field.nullable else of_type


def type_values(wire_type: WireType, version: int) -> st.SearchStrategy[Any]:
    match wire_type:
        case FixedWidth("?"):
            return st.booleans()
        case FixedWidth("d"):
            return st.floats(allow_nan=False)
        case FixedWidth("16s"):
            return st.just(NO_UUID) | st.binary(min_size=16, max_size=16)
        case FixedWidth(code):
            return st.integers(-(2 ** (BITS[code] - 1)), 2 ** (BITS[code] - 1) - 1)
        case LengthPrefixed(_, is_text):
            return st.text(max_size=140) if is_text else st.binary(max_size=140)
        case ListOf(element):
            return st.lists(type_values(element, version), max_size=2)
        case _:
            return values(wire_type, version)


@pytest.mark.parametrize("message", EVERY_MESSAGE)
@A_FEW
@given(data=st.data())
def test_a_message_is_decoded_from_its_json(message: type[Message], data: st.DataObject) -> None:
    value = data.draw(values(message, message.versions.last))
    assert msgspec.json.decode(msgspec.json.encode(value), type=message) == value


def api_name(message: type[Message]) -> str:
    return message.__name__.removesuffix("Request").removesuffix("Response")


def kio_class(message: type[Message], version: int) -> type[Any] | None:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", api_name(message)).lower()
    kind = kio.index.EntityType.request if message.__name__.endswith("Request") else kio.index.EntityType.response
    try:
        return kio.index.load_entity_schema(name, version, kind)
    except kio.index.UnknownEntity:
        return None


@cache
def kafka_python_classes() -> dict[str, Any]:
    subjects = (admin, consumer, metadata, producer, sasl)
    return {name: made for subject in subjects for name, made in inspect.getmembers(subject, inspect.isclass)}


NEWER_THAN_BOTH_LIBRARIES = {"TxnOffsetCommit": 6, "DeleteGroups": 3, "ApiVersions": 5}
"""APIs of which Kafka has a version that neither library knows yet; it is compared with the jar alone."""

DIFFERENT_IN_KAFKA_PYTHON = {
    "ApiVersionsResponse": "kafka-python reads a response with an error as v0",
    "FindCoordinatorResponse": "kafka-python moves fields between the old and the new form",
    "DescribeGroupsResponse": "kafka-python decodes the authorized operations to a set",
}


def assert_equal(ours: Any, theirs: Any) -> None:
    """Compare field by field, by name."""
    if isinstance(ours, Structure):
        for name in ours.__struct_fields__:
            if hasattr(theirs, name):
                assert_equal(getattr(ours, name), getattr(theirs, name))
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_equal(mine, other)
    elif isinstance(ours, bytes) and not isinstance(theirs, bytes):
        assert theirs is None or ours == (theirs.bytes if hasattr(theirs, "bytes") else bytes(theirs))
    else:
        assert ours == theirs


def assert_kio_agrees(message: type[Message], version: int, ours: bytes) -> None:
    theirs = kio_class(message, version)
    if theirs is None:
        is_newer = NEWER_THAN_BOTH_LIBRARIES.get(api_name(message)) == version
        assert version <= 3 or is_newer, "kio lacks only the oldest versions"
        return
    read, size = entity_reader(theirs)(ours, 0)
    assert size == len(ours)
    written = io.BytesIO()
    entity_writer(theirs)(written, read)
    assert written.getvalue() == ours


def assert_kafka_python_agrees(value: Message, version: int, ours: bytes) -> None:
    name = type(value).__name__
    theirs = kafka_python_classes().get(name)
    if theirs is None:
        assert name.startswith("ConsumerGroup"), "kafka-python lacks only the newer group protocol"
        return
    if name in DIFFERENT_IN_KAFKA_PYTHON or not theirs.min_version <= version <= theirs.max_version:
        return
    read = theirs.decode(ours, version=version)
    assert_equal(value, read)
    read._header = None
    assert read.encode(version=version) == ours


@pytest.mark.parametrize(("message", "version"), WITH_MIDDLE_VERSIONS_SLOW)
@A_FEW
@given(data=st.data())
def test_a_message_is_decoded_as_it_was_encoded_and_other_libraries_agree(
    message: type[Message], version: int, data: st.DataObject
) -> None:
    value = data.draw(values(message, version))
    ours = encode(value, version)
    assert decode(message, version, ours) == value
    assert_kio_agrees(message, version, ours)
    assert_kafka_python_agrees(value, version, ours)


@pytest.mark.parametrize(("message", "version"), WITH_MIDDLE_VERSIONS_SLOW)
@A_FEW
@given(data=st.data())
def test_any_bytes_are_a_message_or_malformed(message: type[Message], version: int, data: st.DataObject) -> None:
    whole = bytearray(encode(data.draw(values(message, version)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, max(len(whole) - 1, 0)))
        whole[position : position + 1] = data.draw(st.binary(max_size=2) | st.sampled_from([b"\xff" * 5, b"\x7f\xff"]))
    with suppress(Malformed):
        value = decode(message, version, bytes(whole))
        assert decode(message, version, encode(value, version)) == value


def read_definition(text: str) -> dict[str, Any]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    definition: dict[str, Any] = json.loads("\n".join(lines))
    return definition


def packaged_definition(message: type[Message]) -> dict[str, Any] | None:
    """Kafka's own definition of a message, from the package of kafka-python; None if it is not there."""
    path = files("kafka.protocol") / "schemas" / "resources" / f"{message.__name__}.json"
    return read_definition(path.read_text()) if path.is_file() else None


@cache
def jar_of_kafka() -> ZipFile:
    """The jar of the newest Apache Kafka that has the definitions; the test is skipped where it cannot be had."""
    try:
        (jar,) = kafka_jars().glob("kafka-clients-*.jar")
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    return ZipFile(jar)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def overlap(one: Versions, other: Versions) -> bool:
    return max(one.first, other.first) <= min(one.last, other.last)


def assert_defined(structure: type[Structure], definitions: list[dict[str, Any]], whole: Versions, path: str) -> None:
    """The fields of a class have in every version the properties that Kafka's definition gives them."""
    ours = {field.name: field for field in fields_of(structure) if overlap(field.carried, whole)}
    definitions = [each for each in definitions if overlap(Versions.parse(each.get("versions", "0+")), whole)]
    assert set(ours) == {snake_case(definition["name"]) for definition in definitions}, path
    for definition in definitions:
        field = ours[snake_case(definition["name"])]
        where = f"{path}.{field.name}"
        theirs = {
            "carried": Versions.parse(definition.get("versions", "0+")),
            "nullable": Versions.parse(definition.get("nullableVersions", "none")),
        }
        for version in range(whole.first, whole.last + 1):
            carried = version in theirs["carried"]
            assert (version in field.carried) == carried, f"{where} v{version}"
            if carried:
                assert (version in field.nullable) == (version in theirs["nullable"]), f"{where} v{version} null"
        assert field.tag == definition.get("tag"), where
        if whole.first not in theirs["carried"] or whole.last not in theirs["carried"]:
            assert field.ignorable == definition.get("ignorable", False), f"{where} ignorable"
        if "default" in definition and field.default is not msgspec.NODEFAULT:
            assert_default(field.default, str(definition["default"]), where)


def assert_default(ours: object, theirs: str, where: str) -> None:
    if ours is None or isinstance(ours, bool):
        assert str(ours).lower().replace("none", "null") == theirs.lower(), where
    else:
        assert ours == (int(theirs, 0) if isinstance(ours, int) else theirs), where


@pytest.mark.parametrize("message", EVERY_MESSAGE)
def test_the_fields_of_a_message_are_those_of_kafkas_definition(message: type[Message]) -> None:
    definition = packaged_definition(message)
    if definition is None:
        pytest.skip("kafka-python does not have this definition")
    if api_name(message) not in NEWER_THAN_BOTH_LIBRARIES:
        assert_message_defined(message, definition)


@pytest.mark.slow  # the jar may have to be downloaded
@pytest.mark.parametrize("message", EVERY_MESSAGE)
def test_the_fields_of_a_message_are_those_of_the_newest_apache_kafka(message: type[Message]) -> None:
    text = jar_of_kafka().read(f"common/message/{message.__name__}.json").decode()
    assert_message_defined(message, read_definition(text))


NAMED_DIFFERENTLY = {"generation_id_or_member_epoch": "generation_id"}
"""Kafka's new name of a field of TxnOffsetCommit: the member epochs of KIP-848 are not served."""


WITH_UNSTABLE_VERSION = (InitProducerIdRequest, InitProducerIdResponse)
"""The newest version of these is not stable, and Kafka does not serve it either."""


def with_our_names(message: type[Message], definition: dict[str, Any]) -> dict[str, Any]:
    """The definition of TxnOffsetCommit with the name that its field has here."""
    if api_name(message) != "TxnOffsetCommit":
        return definition
    fields = [
        each | {"name": NAMED_DIFFERENTLY.get(snake_case(each["name"]), each["name"])} for each in definition["fields"]
    ]
    return definition | {"fields": fields}


def assert_message_defined(message: type[Message], definition: dict[str, Any]) -> None:
    """Our fields are Kafka's in every version that the definition has; Kafka 4 has forgotten the oldest ones."""
    definition = with_our_names(message, definition)
    valid = Versions.parse(definition["validVersions"])
    compared = Versions(valid.first, valid.last - (message in WITH_UNSTABLE_VERSION))
    assert message.versions == (0, compared.last)
    assert message.flexible == Versions.parse(definition["flexibleVersions"])
    shared = {each["name"]: each["fields"] for each in definition.get("commonStructs", [])}

    def walk(structure: type[Structure], definitions: list[dict[str, Any]], whole: Versions, path: str) -> None:
        assert_defined(structure, definitions, whole, path)
        for each in definitions:
            if not overlap(Versions.parse(each.get("versions", "0+")), whole):
                continue
            field = next(field for field in fields_of(structure) if field.name == snake_case(each["name"]))
            inner = field.type.element if isinstance(field.type, ListOf) else field.type
            if isinstance(inner, type):
                carried = Versions.parse(each.get("versions", "0+"))
                inside = Versions(max(whole.first, carried.first), min(whole.last, carried.last))
                walk(
                    inner, each.get("fields") or shared[each["type"].removeprefix("[]")], inside, f"{path}.{field.name}"
                )

    walk(message, definition["fields"], compared, message.__name__)
