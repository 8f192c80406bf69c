"""A consumer as a pure machine, its habits, and the transports that carry it.

from regroup.members.consumer.settings import ConsumerSettings        # by the names of Kafka's consumer configuration
from regroup.members.consumer.machine import Consumer                # receive(happening, now_ms) -> Step
from regroup.members.consumer.inputs import Subscribe, Poll, …    # what can happen to it
from regroup.members.consumer.effects import Step, PartitionsLost, …    # what follows
from regroup.members.faults import Habit, parse_habit        # ways to misbehave
from regroup.members.runtime.workload import Workload, Ledger        # records, and what became of them
from regroup.members.transports.direct import CallTransport              # calls in the process
from regroup.members.transports.tcp import TcpTransport                 # any broker
from regroup.members.runtime.member import Member                     # runs a consumer with habits on a transport
from regroup.members.producer.producer import Producer               # simulated records
"""
