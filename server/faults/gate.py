"""The rules that are in force, and the gate that applies them to the requests of one broker."""

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.protocol.message import Message
from regroup.server.faults.answers import error_response
from regroup.server.faults.facts import RequestFacts
from regroup.server.faults.rule import FaultRule, InvalidFault
from regroup.server.net.exchange import Exchange

MAX_RULES: Final = 1_000
"""Rules that may be in force: each request is compared with all of them."""


class UnknownRule(LookupError):
    """No rule in force has this number."""


class ActiveFault:
    """A rule in force: how often it matched and hit, and the requests that it holds."""

    def __init__(self, rule: FaultRule, number: int = 0) -> None:
        self.rule = rule
        self.number = number
        """Rules are numbered in the order in which they were added, from 1; no number is used twice."""
        self.matched = 0
        """Requests that the conditions of the rule hold of."""
        self.hits = 0
        """Requests to which something happened."""
        self.held: list[tuple[Exchange, Callable[[], None]]] = []
        self.timer: asyncio.TimerHandle | None = None
        """Removes the rule when it expires."""
        self._random = Random(rule.seed)

    @property
    def is_spent(self) -> bool:
        """The rule has hit as often as it may."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def takes(self, facts: RequestFacts) -> bool:
        """Count a request that matches; True if the rule hits it."""
        if self.is_spent or not self.rule.matches(facts):
            return False
        self.matched += 1
        if self.matched <= self.rule.skip or self._random.random() >= self.rule.chance:
            return False
        self.hits += 1
        return True

    def release(self) -> None:
        """Go on with the requests that are held; those of lost connections are dropped."""
        held, self.held = self.held, []
        for _, go_on in held:
            go_on()


class FaultRules:
    """The rules of a cluster, in the order in which they were added: the first that hits a request decides."""

    def __init__(self, topic_name: Callable[[bytes], str]) -> None:
        self._topic_name = topic_name
        self._active: list[ActiveFault] = []
        self._numbers = count(1)
        self.on_change: Callable[[], object] = lambda: None
        """Called when a rule was added."""
        self.on_hit: Callable[[ActiveFault, Exchange], object] = lambda fault, exchange: None
        """Called when a rule hits a request, before anything happens to it."""

    def add(self, rule: FaultRule) -> ActiveFault:
        """Put a rule in force. Raises InvalidFault if there are too many."""
        if len(self._active) >= MAX_RULES:
            raise InvalidFault(f"{MAX_RULES} rules are in force, and no more are possible: remove some")
        fault = ActiveFault(rule, next(self._numbers))
        self._active.append(fault)
        if rule.expires_after_s is not None:
            fault.timer = asyncio.get_running_loop().call_later(rule.expires_after_s, self.remove, fault)
        self.on_change()
        return fault

    def active(self) -> tuple[ActiveFault, ...]:
        """The rules in force, in the order in which they were added."""
        return tuple(self._active)

    def find(self, number: int) -> ActiveFault:
        """The rule with this number. Raises UnknownRule."""
        found = next((fault for fault in self._active if fault.number == number), None)
        if found is None:
            numbers = ", ".join(str(fault.number) for fault in self._active) or "none"
            raise UnknownRule(f"no rule {number} is in force; in force: {numbers}")
        return found

    def remove(self, fault: ActiveFault) -> None:
        """End a rule, and release what it holds. A second call has no effect."""
        if fault in self._active:
            self._active.remove(fault)
        if fault.timer is not None:
            fault.timer.cancel()
        fault.release()

    def may_hit(self, exchange: Exchange, broker: int) -> bool:
        """Whether a rule that is not spent matches the request."""
        if not self._active:
            return False
        facts = RequestFacts(exchange, broker, self._topic_name)
        return any(not fault.is_spent and fault.rule.matches(facts) for fault in self._active)

    def take(self, exchange: Exchange, broker: int) -> ActiveFault | None:
        """The rule that hits the request, if any."""
        if not self._active:
            return None
        facts = RequestFacts(exchange, broker, self._topic_name)
        return next((fault for fault in self._active if fault.takes(facts)), None)


class FaultGate:
    """The gate of one broker: a RequestGate."""

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
        self._rules.on_hit(fault, exchange)

        def begin() -> None:
            apply_fault(fault.rule, exchange, proceed)

        if fault.rule.hold:
            fault.held.append((exchange, begin))
        elif fault.rule.delay_s:
            asyncio.get_running_loop().call_later(fault.rule.delay_s, begin)
        else:
            begin()


def apply_fault(rule: FaultRule, exchange: Exchange, proceed: Callable[[], None]) -> None:
    """Do what the rule says to a request whose delay is over."""
    if rule.close == "before":
        exchange.close_connection("a fault rule closes it")
    elif rule.answer is not None:
        response = error_response(exchange.request, exchange.version, rule.answer)
        send_changed(rule, exchange, response)
    elif rule.drop != "request":
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


def send_changed(rule: FaultRule, exchange: Exchange, response: Message | None) -> None:
    """Send the response as the rule wants it: throttled, later, or not at all."""
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
        else:
            exchange.respond(response)

    if rule.answer_delay_s:
        asyncio.get_running_loop().call_later(rule.answer_delay_s, send)
    else:
        send()
