"""A consumer as a pure machine, its habits, and the transports that carry it.

from regroup.members.settings import ConsumerSettings        # by the names of Kafka's consumer configuration
from regroup.members.consumer import Consumer                # receive(happening, now_ms) -> Step
from regroup.members.happenings import Subscribe, Poll, …    # what can happen to it
from regroup.members.steps import Step, PartitionsLost, …    # what follows
from regroup.members.habits import Habit, parse_habit        # ways to misbehave
from regroup.members.workload import Workload, Ledger        # records, and what became of them
from regroup.members.calls import CallTransport              # calls in the process
from regroup.members.tcp import TcpTransport                 # any broker
from regroup.members.drive import Member                     # runs a consumer with habits on a transport
from regroup.members.producing import Producer               # simulated records
"""
