"""The fault rules in force, and the gate that applies them to the requests of one broker."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Final

from regroup.protocol.message import Message
from regroup.server.faults.cluster_facts import ClusterFacts
from regroup.server.faults.effects import apply_fault, send_changed
from regroup.server.faults.false_answers import false_response
from regroup.server.faults.rule import FaultRule, InvalidFault
from regroup.server.net.exchange import Exchange
from regroup.server.net.request_recorder import RequestRecorder
from regroup.server.request_facts import RequestFacts

MAX_RULES: Final = 1_000
"""The most rules that may be in force, because each request is compared with all of them."""


class UnknownRule(LookupError):
    """Raised when a command names a fault rule by a number that no rule in force has."""


class ActiveFault:
    """A fault rule in force: how often it matched and hit, and the requests that it holds."""

    def __init__(self, rule: FaultRule, number: int = 0) -> None:
        self.rule = rule
        self.number = number
        """The number of the rule: rules count from 1 in the order in which they are added, and no number is used
        twice."""
        self.matched = 0
        """How many requests fulfilled the conditions of the rule before it was spent."""
        self.hits = 0
        """How many requests the rule has hit: something happened to them."""
        self.held: dict[Exchange, Callable[[], None]] = {}
        self.timer: asyncio.TimerHandle | None = None
        """The timer that removes the rule when it expires; None if it never expires."""
        self._drawn = 0
        self._random = Random(rule.seed)

    @property
    def is_spent(self) -> bool:
        """Whether the rule has hit as many requests as its field `times` allows, so that it hits no more."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def takes(self, facts: RequestFacts) -> bool:
        """Whether the rule hits the request with these facts. A request that fulfils the rule's conditions is counted
        in `matched`, even if it is not hit.

        For a rule with `false_answer`, True means that the rule may hit; that is decided when the handler's response is
        known.
        """
        if self.is_spent or not self.rule.matches(facts):
            return False
        self.matched += 1
        return bool(self.rule.false_answer) or self.draw()

    def draw(self) -> bool:
        """Decide by the rule's `skip`, `times` and `chance` whether it hits a request that fulfils its conditions; if
        so, count the hit and return True."""
        if self.is_spent:
            return False
        self._drawn += 1
        if self._drawn <= self.rule.skip or self._random.random() >= self.rule.chance:
            return False
        self.hits += 1
        return True

    def hold(self, exchange: Exchange, go_on: Callable[[], None]) -> None:
        """Keep the request of `exchange` unanswered until `release` is called or its connection is lost. `go_on` is the
        function that `release` calls to handle the request."""
        self.held[exchange] = go_on
        exchange.on_connection_lost = lambda: self.held.pop(exchange, None)

    def release(self) -> int:
        """Continue with every request that the rule holds; returns how many there were."""
        held, self.held = self.held, {}
        for exchange, go_on in held.items():
            exchange.on_connection_lost = None
            go_on()
        return len(held)


class FaultRules:
    """The fault rules of a cluster, in the order in which they were added. The first rule that hits a request is
    applied, and no other."""

    def __init__(self, cluster: ClusterFacts) -> None:
        self.cluster = cluster
        self._active: dict[int, ActiveFault] = {}
        self._numbers = count(1)
        self.on_change: Callable[[], object] = lambda: None
        """Called after a rule was added."""
        self.recorder: RequestRecorder | None = None
        """The recorder that notes which rule hit a request; None if exchanges are not recorded."""
        self.on_hit: Callable[[ActiveFault, Exchange], object] = lambda fault, exchange: None
        """Called when a rule hits a request, before anything happens to it."""

    def add(self, rule: FaultRule) -> ActiveFault:
        """Put a rule in force, behind the others, and return it with its number and counts. Raises InvalidFault if
        MAX_RULES rules are in force already."""
        if len(self._active) >= MAX_RULES:
            raise InvalidFault(f"{MAX_RULES} rules are in force, and no more are possible: remove some")
        fault = ActiveFault(rule, next(self._numbers))
        self._active[fault.number] = fault
        if rule.expires_after_s is not None:
            fault.timer = asyncio.get_running_loop().call_later(rule.expires_after_s, self.remove, fault)
        self.on_change()
        return fault

    def active(self) -> tuple[ActiveFault, ...]:
        """The rules in force, in the order in which they were added."""
        return tuple(self._active.values())

    def find(self, number: int) -> ActiveFault:
        """The rule in force that has this number. Raises UnknownRule if there is none."""
        if number not in self._active:
            numbers = ", ".join(map(str, self._active)) or "none"
            raise UnknownRule(f"no rule {number} is in force; in force: {numbers}")
        return self._active[number]

    def is_active(self, fault: ActiveFault) -> bool:
        """Whether the rule is in force: it was not removed and has not expired."""
        return fault.number in self._active

    def remove(self, fault: ActiveFault) -> None:
        """End a rule and continue with the requests that it holds. If the rule has been removed before, nothing
        happens."""
        self._active.pop(fault.number, None)
        if fault.timer is not None:
            fault.timer.cancel()
        fault.release()

    def note_hit(self, fault: ActiveFault, exchange: Exchange) -> None:
        """Report to the recorder, if there is one, and to the function `on_hit` that the rule hits the request of
        `exchange`. It is called before the rule does anything to the request."""
        if self.recorder is not None and exchange.row is not None:
            self.recorder.note_fault(exchange.row, fault.rule.effect)
        self.on_hit(fault, exchange)

    def may_hit(self, exchange: Exchange, broker: int) -> bool:
        """Whether any rule in force that can still hit requests matches the request of `exchange` at the broker with
        the node id `broker`. Nothing is counted."""
        if not self._active:
            return False
        facts = RequestFacts(exchange, broker, self.cluster.topic_name)
        return any(not fault.is_spent and fault.rule.matches(facts) for fault in self._active.values())

    def take(self, exchange: Exchange, broker: int) -> ActiveFault | None:
        """The first rule in force that hits the request of `exchange` at the broker with the node id `broker`; None if
        none does. The counts of the rules that match are updated."""
        if not self._active:
            return None
        facts = RequestFacts(exchange, broker, self.cluster.topic_name)
        return next((fault for fault in self._active.values() if fault.takes(facts)), None)


class FaultGate:
    """The gate of one broker: every request passes it, and the fault rules in force are applied to the requests that
    they hit."""

    def __init__(self, broker: int, rules: FaultRules) -> None:
        self._broker = broker
        self._rules = rules

    def may_stop(self, exchange: Exchange) -> bool:
        return self._rules.may_hit(exchange, self._broker)

    def admit(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        fault = self._rules.take(exchange, self._broker)
        if fault is None:
            proceed()
            return
        if fault.rule.false_answer:
            exchange.intercept = partial(self._falsify, fault, exchange)
            proceed()
            return
        self._rules.note_hit(fault, exchange)
        begin = partial(apply_fault, fault.rule, exchange, proceed, self._rules.cluster)
        if fault.rule.hold:
            fault.hold(exchange, partial(self._begin, fault.rule.delay_s, begin))
        else:
            exchange.is_handled_if_lost = fault.rule.delay_s > 0
            self._begin(fault.rule.delay_s, begin)

    def _begin(self, delay_s: float, begin: Callable[[], None]) -> None:
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, begin)
        else:
            begin()

    def _falsify(self, fault: ActiveFault, exchange: Exchange, response: Message | None) -> None:
        """Send a false answer in place of the handler's `response` if one can be made and the rule's `skip`, `times`
        and `chance` allow it; otherwise send the response unchanged."""
        kind, request = fault.rule.false_answer, exchange.request
        false = None if response is None else false_response(kind, request, response, self._rules.cluster)
        if response is None:
            exchange.finish_without_response()
        elif false is None or not fault.draw():
            exchange.respond(response)
        else:
            self._rules.note_hit(fault, exchange)
            send_changed(fault.rule, exchange, false)
