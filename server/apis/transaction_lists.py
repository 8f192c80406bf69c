"""Handlers of DescribeTransactions and ListTransactions (KIP-664), and the compiler of RE2 patterns for these and for
subscriptions.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final, NamedTuple

from regroup.coordinator.runtime.logger import get_logger
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import in_hash_map_order, java_partition_hash
from regroup.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionTopic,
)
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transactions import Transaction, TransactionState
from regroup.server.limits import MAX_PATTERN_BYTES, MAX_PATTERN_CHARACTERS, MAX_PATTERN_INSTRUCTIONS
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_TRANSIENT_STATES = frozenset({"Dead", "PrepareEpochFence"})
"""Names of transaction states that ListTransactions accepts as filters, although no transaction is listed in them."""

_PROGRAM_SIZE_PER_STEP: Final = 500
"""How much matching one step may do: the instructions of a compiled pattern, times the characters of the text."""

RE2_MISSING = "a pattern needs RE2: pip install google-re2"

log = get_logger("transactions")


class InvalidPattern(ValueError):
    """Raised for a pattern that is not a regular expression of RE2, or if RE2 is not installed; the text says which."""


class TransactionListApis:
    """Answers DescribeTransactions and ListTransactions for the transactional ids that this broker coordinates."""

    def __init__(self, state: ClusterState, node_id: int) -> None:
        self._state = state
        self._node_id = node_id

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            DescribeTransactionsRequest.api_key: self.describe,
            ListTransactionsRequest.api_key: self.list,
        }

    def _is_here(self, transactional_id: str) -> bool:
        return self._state.transaction_coordinator_id(transactional_id) == self._node_id

    def describe(self, request: DescribeTransactionsRequest, exchange: Exchange) -> Turns:
        """Describe transactions. A transactional id that the request names several times is looked up once and returned
        each time."""
        described: dict[str, DescribedTransaction] = {}
        for transactional_id in request.transactional_ids:
            if transactional_id not in described:
                described[transactional_id] = self._describe(transactional_id)
                partitions = sum(len(topic.partitions) for topic in described[transactional_id].topics)
                yield 1 + len(transactional_id) // 100 + partitions
        states = [described[transactional_id] for transactional_id in request.transactional_ids]
        exchange.respond_when_durable(DescribeTransactionsResponse(transaction_states=states), self._state.when_durable)

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        transaction = self._state.image.transactions.get(transactional_id)
        code = None
        if not transactional_id:
            code = ErrorCode.INVALID_REQUEST
        elif not self._is_here(transactional_id):
            code = ErrorCode.NOT_COORDINATOR
        elif transaction is None:
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if code is not None or transaction is None:
            return DescribedTransaction(transactional_id=transactional_id, error_code=code or ErrorCode.NONE)
        return DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=transaction.state.value,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.started_at_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            topics=list(_topics_of(transaction)),
        )

    def list(self, request: ListTransactionsRequest, exchange: Exchange) -> Turns:
        """List transactions. A state filter that does not exist selects nothing and is returned as unknown; names of
        states are case-sensitive."""
        known = {state.value for state in TransactionState} | _TRANSIENT_STATES
        unknown = [name for name in dict.fromkeys(request.state_filters) if name not in known]
        try:
            pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
        except InvalidPattern as error:
            log.warning("transactions are not listed", reason=str(error))
            exchange.respond(ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
            return
        states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
        listed = []
        for each in [*self._state.image.transactions.values()]:
            is_selected = (
                self._is_here(each.transactional_id)
                and (not producer_ids or each.producer_id in producer_ids)
                and (not states or each.state.value in states)
                and self._has_lasted(each, request.duration_filter)
            )
            if is_selected and (pattern is None or pattern.matches(each.transactional_id)):
                listed.append(
                    ListedTransaction(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer_id,
                        transaction_state=each.state.value,
                    )
                )
            steps_of_match = pattern.steps_of_match(each.transactional_id) if is_selected and pattern else 0
            yield 1 + len(each.transactional_id) // 100 + steps_of_match
        response = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
        exchange.respond_when_durable(response, self._state.when_durable)

    def _has_lasted(self, transaction: Transaction, duration_filter: int) -> bool:
        """Whether the transaction has been open for longer than `duration_filter`, in milliseconds; a negative one
        selects every transaction.

        As in Kafka a producer that has begun no transaction since it was initialized is older than any duration; so is
        here one whose transaction has ended.
        """
        duration_ms = self._state.now_ms() - transaction.started_at_ms
        return duration_filter < 0 or duration_ms > duration_filter


class CompiledPattern(NamedTuple):
    """A compiled regular expression, and how much time a match takes: it grows with the text and with the number of
    instructions."""

    matches: Callable[[str], bool]
    """Whether the expression matches a whole text."""
    program_size: int

    def steps_of_match(self, text: str) -> int:
        return self.program_size * len(text) // _PROGRAM_SIZE_PER_STEP


def compile_pattern(pattern: str) -> CompiledPattern:
    """Compile a regular expression. Raises InvalidPattern.

    It has the syntax of RE2, as in Kafka, and takes a time that is linear in the text. Python's own regular expressions
    would let one of twenty characters occupy the broker for years. RE2 is not among the dependencies, because it has no
    packages for some systems.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidPattern(f"the pattern has {len(pattern)} characters, at most {MAX_PATTERN_CHARACTERS} are allowed")
    try:
        re2 = import_module("re2")
    except ImportError:
        raise InvalidPattern(RE2_MISSING) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise InvalidPattern(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
    if compiled.programsize > MAX_PATTERN_INSTRUCTIONS:
        raise InvalidPattern(
            f"the pattern has {compiled.programsize} instructions, at most {MAX_PATTERN_INSTRUCTIONS} are allowed"
        )
    return CompiledPattern(lambda text: compiled.fullmatch(text) is not None, compiled.programsize)


def _topics_of(transaction: Transaction) -> Iterator[TransactionTopic]:
    """The partitions of an open transaction, by topic. The topics have the order of Kafka's hash set."""
    partitions = [(topic, index) for topic, indexes in transaction.partitions.items() for index in indexes]
    by_topic: dict[str, list[int]] = {}
    for topic, index in in_hash_map_order(partitions, java_partition_hash):
        by_topic.setdefault(topic, []).append(index)
    for topic, indexes in by_topic.items():
        yield TransactionTopic(topic=topic, partitions=indexes)
