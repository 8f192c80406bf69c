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
    """No rule in force has this number."""


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
        """Whether the rule has hit as many requests as `times` allows."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def takes(self, facts: RequestFacts) -> bool:
        """Whether the rule hits a request. A request that fulfils the conditions is counted as matched. For a rule with
        `false_answer` True means only that it may hit: its response decides."""
        if self.is_spent or not self.rule.matches(facts):
            return False
        self.matched += 1
        return bool(self.rule.false_answer) or self.draw()

    def draw(self) -> bool:
        """Decide by `skip`, `times` and `chance` whether a matching request is hit, and count the hit if it is."""
        if self.is_spent:
            return False
        self._drawn += 1
        if self._drawn <= self.rule.skip or self._random.random() >= self.rule.chance:
            return False
        self.hits += 1
        return True

    def hold(self, exchange: Exchange, go_on: Callable[[], None]) -> None:
        """Hold a request until the rule is released, or until its connection is lost. `go_on` continues with the
        request."""
        self.held[exchange] = go_on
        exchange.on_connection_lost = lambda: self.held.pop(exchange, None)

    def release(self) -> int:
        """Let the held requests go on; returns their number."""
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
        """Put a rule in force. Raises InvalidFault if there are too many."""
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
        """The rule with this number. Raises UnknownRule."""
        if number not in self._active:
            numbers = ", ".join(map(str, self._active)) or "none"
            raise UnknownRule(f"no rule {number} is in force; in force: {numbers}")
        return self._active[number]

    def is_active(self, fault: ActiveFault) -> bool:
        """Whether the rule is in force: it was not removed and has not expired."""
        return fault.number in self._active

    def remove(self, fault: ActiveFault) -> None:
        """Remove a rule and let the requests that it holds go on. A second call has no effect."""
        self._active.pop(fault.number, None)
        if fault.timer is not None:
            fault.timer.cancel()
        fault.release()

    def note_hit(self, fault: ActiveFault, exchange: Exchange) -> None:
        """Report that a rule hits a request to the recorder and to `on_hit`, before anything happens to the request."""
        if self.recorder is not None and exchange.row is not None:
            self.recorder.note_fault(exchange.row, fault.rule.effect)
        self.on_hit(fault, exchange)

    def may_hit(self, exchange: Exchange, broker: int) -> bool:
        """Whether any rule that is not spent matches the request."""
        if not self._active:
            return False
        facts = RequestFacts(exchange, broker, self.cluster.topic_name)
        return any(not fault.is_spent and fault.rule.matches(facts) for fault in self._active.values())

    def take(self, exchange: Exchange, broker: int) -> ActiveFault | None:
        """The first rule that hits the request, with its counts updated; None if no rule does."""
        if not self._active:
            return None
        facts = RequestFacts(exchange, broker, self.cluster.topic_name)
        return next((fault for fault in self._active.values() if fault.takes(facts)), None)


class FaultGate:
    """The request gate of one broker, which applies the fault rules in force."""

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
        """Send a false response if one can be made and `skip`, `times` and `chance` allow it; otherwise the true
        one."""
        kind, request = fault.rule.false_answer, exchange.request
        false = None if response is None else false_response(kind, request, response, self._rules.cluster)
        if response is None:
            exchange.finish_without_response()
        elif false is None or not fault.draw():
            exchange.respond(response)
        else:
            self._rules.note_hit(fault, exchange)
            send_changed(fault.rule, exchange, false)
