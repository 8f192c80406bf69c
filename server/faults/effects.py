"""What a fault rule does to a request that it hits, and to its response."""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponseBroker
from regroup.protocol.messages.records import FetchRequest
from regroup.server.faults.cluster_facts import ClusterFacts
from regroup.server.faults.cuts import cut_frame
from regroup.server.faults.rule import FaultRule
from regroup.server.net.exchange import Exchange
from regroup.server.responses.errors import error_response, expects_response
from regroup.server.responses.partitions import (
    PARTITION_LISTS,
    TopicNames,
    every_partition,
    with_errors,
    with_errors_of,
    without_partitions,
)


def apply_fault(rule: FaultRule, exchange: Exchange, proceed: Callable[[], None], cluster: ClusterFacts) -> None:
    """Do what a fault rule says to a request that it has hit, once the rule's delay is over. `proceed` calls the
    handler of the request."""
    if rule.close == "before":
        exchange.close_connection("a fault rule closes it")
    elif rule.answer is not None:
        refuse(rule, rule.answer, exchange, cluster)
    elif rule.partition_error is not None:
        apply_in_part(rule, rule.partition_error, exchange, proceed, cluster.topic_name)
    elif rule.drop != "request":
        apply_and_change(rule, exchange, proceed)


def refuse(rule: FaultRule, code: int, exchange: Exchange, cluster: ClusterFacts) -> None:
    """Answer a request with this error code, without its handler. A Produce with `acks=0` expects no answer: its
    connection is closed, as Kafka does it."""
    if not expects_response(exchange.request):
        exchange.close_connection("a fault rule refuses a request that expects no response")
        return
    response = error_response(exchange.request, exchange.version, code)
    if isinstance(response, MetadataResponse):
        response = with_brokers(response, cluster)
    send_changed(rule, exchange, response)


def with_brokers(response: MetadataResponse, cluster: ClusterFacts) -> MetadataResponse:
    """A Metadata response with errors of topics, completed with the brokers of the cluster. A client that gets no
    brokers could not send another request."""
    nodes = cluster.brokers()
    brokers = [MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port) for each in nodes.values()]
    return replace(response, brokers=brokers, controller_id=min(nodes, default=-1))


def apply_and_change(rule: FaultRule, exchange: Exchange, proceed: Callable[[], None]) -> None:
    """Call the handler of the request through `proceed`, twice if the rule has `repeat`, and send the last response
    with the changes that the rule names: throttled, later, cut short, or not at all."""
    applications = 2 if rule.repeat else 1

    def on_response(response: Message | None) -> None:
        nonlocal applications
        applications -= 1
        if applications:
            exchange.intercept = on_response
            proceed()
        else:
            send_changed(rule, exchange, response)

    exchange.intercept = on_response
    proceed()


def apply_in_part(
    rule: FaultRule, code: int, exchange: Exchange, proceed: Callable[[], None], topic_name: TopicNames
) -> None:
    """Answer the partitions that the rule names with the error `code`, and all others with the handler's result. If the
    API changes something, the handler gets the request without the named partitions, so that nothing is changed in
    them."""
    whole = exchange.request
    if PARTITION_LISTS[type(whole)].changes_state:
        rest, removed = without_partitions(whole, rule.concerns_partition, topic_name)
        if not getattr(rest, PARTITION_LISTS[type(whole)].request_topics):
            response = every_partition(removed, code) if expects_response(whole) else None
            send_changed(rule, exchange, response)
            return
        change = partial(with_errors_of, removed, code=code)
    else:
        # As in Kafka, an error ends the wait for records.
        rest = replace(whole, max_wait_ms=0) if isinstance(whole, FetchRequest) else whole
        change = partial(with_errors, whole, is_concerned=rule.concerns_partition, names=topic_name, code=code)

    def on_response(response: Message | None) -> None:
        exchange.request = whole
        if response is not None and not getattr(response, "error_code", 0):
            response = change(response=response)
        send_changed(rule, exchange, response)

    exchange.request = rest
    exchange.intercept = on_response
    proceed()


def send_changed(rule: FaultRule, exchange: Exchange, response: Message | None) -> None:
    """Send `response` with the changes that the rule names: throttled, later, cut short, or not at all (`drop`,
    `close`). None means that the request expects no response."""
    if rule.drop == "answer":
        return
    if rule.close == "after":
        exchange.close_connection("a fault rule closes it in place of the response")
        return
    if rule.throttle_ms and response is not None and hasattr(response, "throttle_time_ms"):
        response = replace(response, throttle_time_ms=rule.throttle_ms)

    def send() -> None:
        exchange.still_valid = None
        if response is None:
            exchange.finish_without_response()
            return
        if rule.cut:
            exchange.edit_frame = partial(cut_frame, kind=rule.cut, cut_at=rule.cut_at)
            exchange.close_behind = "a fault rule cuts the response short" if rule.cut == "frame" else ""
        exchange.respond(response)

    if rule.answer_delay_s:
        asyncio.get_running_loop().call_later(rule.answer_delay_s, send)
    else:
        send()
