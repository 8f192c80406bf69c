"""Simulated members of consumer groups: a consumer without I/O, what runs it, what carries its requests, its faults.

from regroup.members.consumer.settings import ConsumerSettings         # by the names of Kafka's consumer configuration
from regroup.members.consumer.machine import ConsumerMachine           # receive(input, now_ms) -> ConsumerEffects
from regroup.members.consumer.inputs import Subscribe, Poll, …         # what goes into the machine
from regroup.members.consumer.effects import PartitionsAssigned, …     # what comes out of it
from regroup.members.faults import MemberFault, parse_fault            # faults as values and as text
from regroup.members.partitioners import create_partitioner            # Kafka's partitioners
from regroup.members.runtime.member import SimulatedMember             # a consumer with an application and faults
from regroup.members.runtime.producer import SimulatedProducer         # simulated records
from regroup.members.runtime.workload import Workload, RecordLedger    # what members do, and the records they processed
from regroup.members.transports.tcp import TcpTransport                # to any broker
from regroup.members.transports.mqtt import MqttTransport              # over an MQTT broker
"""
