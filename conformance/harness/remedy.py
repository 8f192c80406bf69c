"""Remedies: with which settings, brokers or options a run would show a story that this run could not show."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Remedy:
    """Settings of the broker, the size of its cluster, and options of `regroup conformance`.

    `settings` are sorted pairs of name and value, so that equal remedies compare equal.
    """

    settings: tuple[tuple[str, str], ...] = ()
    brokers: int = 1
    options: tuple[str, ...] = ()

    @classmethod
    def setting(cls, name: str, value: int) -> Self:
        """The remedy that sets one setting of the broker."""
        return cls(settings=((name, str(value)),))

    @classmethod
    def all_of(cls, remedies: Iterable[Self]) -> Self:
        """One remedy that joins all of these. If two of them set the same setting, the value of the last one counts."""
        settings: dict[str, str] = {}
        options: dict[str, None] = {}
        brokers = 1
        for each in remedies:
            settings.update(each.settings)
            options.update(dict.fromkeys(each.options))
            brokers = max(brokers, each.brokers)
        return cls(tuple(sorted(settings.items())), brokers, tuple(options))

    @property
    def changes_the_broker(self) -> bool:
        """Whether the broker has to be started in another way, and not only the command."""
        return bool(self.settings) or self.brokers > 1

    def broker_needed(self) -> str:
        """The broker that is needed, as in "2 brokers with group.max.size=11"; empty if the present one will do."""
        cluster = f"a cluster of {self.brokers} brokers" if self.brokers > 1 else "a broker"
        settings = " and ".join(f"{name}={value}" for name, value in self.settings)
        return f"{cluster}{f' with {settings}' if settings else ''}" if self.changes_the_broker else ""

    def command(self, bootstrap: str, behaviours: Iterable[str]) -> str:
        """The command that runs these stories.

        It names the address `bootstrap`, or HOST:PORT in its place if another broker has to be started.
        """
        address = "HOST:PORT" if self.changes_the_broker else bootstrap
        words = ["regroup conformance --bootstrap", address, *self.options, "--case", ",".join(behaviours)]
        return " ".join(words)


RESTART_NEEDED: Final = Remedy(options=("--restart COMMAND",))
CLUSTER_NEEDED: Final = Remedy(brokers=2)


def group_by_remedy(remedies: Mapping[str, Remedy]) -> dict[Remedy, list[str]]:
    """The behaviours that share a remedy, in the order in which they are given."""
    groups: dict[Remedy, list[str]] = {}
    for behaviour, remedy in remedies.items():
        groups.setdefault(remedy, []).append(behaviour)
    return groups
