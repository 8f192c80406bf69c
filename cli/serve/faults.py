"""Fault rules of `regroup serve`: read from a file, typed at the prompt, put in force. Loaded only if there
is a rule.
"""

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
    """The rules in the file of `--faults`. Raises CannotRun."""
    try:
        return load_fault_rules(path)
    except InvalidFault as error:
        raise CannotRun(str(error)) from None
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}.") from None


def run_fault_line(rules: FaultRules, line: str) -> list[str]:
    """Execute a line that was typed at the prompt, and return the lines to print. Raises CannotRun."""
    try:
        return run_fault_command(rules, line)
    except (InvalidFault, UnknownRule) as error:
        raise CannotRun(str(error)) from None


def rules_with_gates(cluster: BrokerCluster) -> FaultRules:
    """Fault rules for these brokers. Requests pass no gate until the first rule is added."""
    rules = FaultRules(ClusterFacts(lambda: cluster))
    rules.recorder = cluster.recorder
    rules.on_change = lambda: cluster.install_gates(partial(FaultGate, rules=rules))
    return rules
