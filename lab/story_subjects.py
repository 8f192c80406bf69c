"""Whom a story in Python speaks of, and what can be said of each. A method writes down one step."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from regroup.lab.plan import expectations as e
from regroup.lab.plan import steps as s
from regroup.members.faults import parse_duration_ms as ms

Happens: TypeAlias = Callable[[s.Step], None]


class _Subject:
    def __init__(self, happens: Happens) -> None:
        self._happens = happens


class MemberSubject(_Subject):
    def __init__(self, happens: Happens, name: str) -> None:
        super().__init__(happens)
        self._name = name

    def joins(self) -> None:
        self._happens(s.Joins(self._name))

    def leaves(self) -> None:
        self._happens(s.Leaves(self._name))

    def asks_for_a_rebalance(self) -> None:
        self._happens(s.AsksForRebalance(self._name))

    def crashes(self) -> None:
        self._happens(s.Crashes(self._name))

    def pauses(self, for_: str) -> None:
        self._happens(s.Pauses(self._name, ms(for_)))

    def restarts(self, after: str) -> None:
        self._happens(s.Restarts(self._name, ms(after)))

    def restarts_as_stranger(self, after: str) -> None:
        self._happens(s.RestartsAsStranger(self._name, ms(after)))

    def turns_into_a_zombie(self) -> None:
        self._happens(s.TurnsZombie(self._name))

    def is_cut_off(self, from_: str = s.EVERYBODY, *, for_: str) -> None:
        self._happens(s.CutOff(self._name, from_, ms(for_)))

    def no_longer_hears(self, other: str, for_: str) -> None:
        self._happens(s.NoLongerHears(self._name, other, ms(for_)))

    def loses_connections(self) -> None:
        self._happens(s.ConnectionsReset(self._name))

    def loses_next_request(self, api: str) -> None:
        self._happens(s.RequestLost(self._name, api))

    def loses_next_answer(self, api: str) -> None:
        self._happens(s.AnswerLost(self._name, api))

    # Expected

    def leads(self) -> None:
        self._happens(e.Leads(self._name))

    def was_expelled(self) -> None:
        self._happens(e.WasExpelled(self._name))

    def was_not_expelled(self) -> None:
        self._happens(e.WasNotExpelled(self._name))

    def has_seen(self, code: str) -> None:
        self._happens(e.SawError(self._name, code))

    def keeps_its_partitions(self) -> None:
        self._happens(e.KeepsItsPartitions(self._name))


class GroupSubject(_Subject):
    """What is expected of a group."""

    def __init__(self, happens: Happens, name: str) -> None:
        super().__init__(happens)
        self._name = name

    def is_stable(self, *, with_: Sequence[str] = (), within: str = "0s") -> None:
        self._happens(e.GroupIsStable(tuple(with_), ms(within), self._name))

    def is_empty(self, *, within: str = "0s") -> None:
        self._happens(e.GroupIsEmpty(ms(within), self._name))

    def is_in_generation(self, number: int) -> None:
        self._happens(e.Generation(number))


class RunSubject(_Subject):
    """What is expected of the run as a whole, up to this moment."""

    def expelled_nobody(self) -> None:
        self._happens(e.NobodyWasExpelled())

    def rebalanced_at_most(self, times: int) -> None:
        self._happens(e.AtMostRebalances(times))

    def rebalanced_at_least(self, times: int) -> None:
        self._happens(e.AtLeastRebalances(times))

    def processed_twice_at_most(self, records: int) -> None:
        self._happens(e.ProcessedTwiceAtMost(records))

    def left_unowned_at_most(self, partition_seconds: float) -> None:
        self._happens(e.UnownedAtMost(partition_seconds))


class BrokerSubject(_Subject):
    def __init__(self, happens: Happens, number: int) -> None:
        super().__init__(happens)
        self._number = number

    def stops(self, for_: str) -> None:
        self._happens(s.BrokerStops(self._number, ms(for_)))

    def is_cut_off(self, from_: str = s.EVERYBODY, *, for_: str) -> None:
        self._happens(s.CutOff(f"{s.BROKER}{self._number}", from_, ms(for_)))

    def loses_connections(self) -> None:
        self._happens(s.ConnectionsReset(f"{s.BROKER}{self._number}"))


class BrokersSubject(_Subject):
    def crash(self, for_: str) -> None:
        self._happens(s.BrokersCrash(ms(for_)))

    def lose_power(self, for_: str) -> None:
        self._happens(s.PowerFails(ms(for_)))

    def jump_ahead(self, by: str) -> None:
        self._happens(s.ClockJumps(ms(by)))

    def jump_back(self, by: str) -> None:
        self._happens(s.ClockJumps(-ms(by)))


class NetworkSubject(_Subject):
    def takes(self, latency: str, *, for_: str, jitter: str = "0s") -> None:
        self._happens(s.SlowNetwork(ms(latency), ms(for_), ms(jitter)))


class DiskSubject(_Subject):
    def is_full(self, for_: str) -> None:
        self._happens(s.DiskFull(ms(for_)))

    def fails_once(self) -> None:
        self._happens(s.DiskFails())

    def takes(self, latency: str, *, for_: str) -> None:
        self._happens(s.SlowDisk(ms(latency), ms(for_)))


class LogSubject(_Subject):
    def takes(self, latency: str, *, for_: str) -> None:
        self._happens(s.SlowLog(ms(latency), ms(for_)))

    def refuses(self, code: str, *, for_: str) -> None:
        self._happens(s.LogRefuses(code, ms(for_)))


class TopicSubject(_Subject):
    def __init__(self, happens: Happens, name: str) -> None:
        super().__init__(happens)
        self._name = name

    def appears(self, partitions: int) -> None:
        self._happens(s.TopicAppears(self._name, partitions))

    def grows(self, partitions: int) -> None:
        self._happens(s.TopicGrows(self._name, partitions))

    def vanishes(self) -> None:
        self._happens(s.TopicVanishes(self._name))
