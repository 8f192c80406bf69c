"""Fault rules of `regroup serve`: from a file, at the prompt, and in force. Loaded once there is a rule."""

from functools import partial
from pathlib import Path

from regroup.cli.jobs import CannotRun
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.faults.cluster_facts import ClusterFacts
from regroup.server.faults.file import load_fault_rules
from regroup.server.faults.gate import FaultGate, FaultRules, UnknownRule
from regroup.server.faults.rule import FaultRule, InvalidFault
from regroup.server.faults.text import run_fault_command


def read_fault_rules(path: Path) -> list[FaultRule]:
    """The rules of `--faults`. Raises CannotRun."""
    try:
        return load_fault_rules(path)
    except InvalidFault as error:
        raise CannotRun(str(error)) from None
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}.") from None


def run_fault_line(rules: FaultRules, line: str) -> list[str]:
    """Do what a typed line says, and return the lines to show. Raises CannotRun."""
    try:
        return run_fault_command(rules, line)
    except (InvalidFault, UnknownRule) as error:
        raise CannotRun(str(error)) from None


def rules_with_gates(cluster: BrokerCluster) -> FaultRules:
    """Rules for these brokers, whose requests pass no gate before the first of them."""
    rules = FaultRules(ClusterFacts(lambda: cluster))
    rules.recorder = cluster.recorder
    rules.on_change = lambda: cluster.install_gates(partial(FaultGate, rules=rules))
    return rules
