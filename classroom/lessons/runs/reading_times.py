"""When each partition was read: by members that run and believe that they own it, as the lab saw them.

The timeline of a group begins a gap when the coordinator removes a member. A crashed member stops reading at once, so
the time that nothing was read is longer; it is in no event.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from regroup.classroom.lessons.runs.run import LessonRun
from regroup.lab.plan.plan import PlannedStep
from regroup.lab.plan.steps import BecomesZombie, Crashes, Pauses, Restarts, RestartsWithoutInstanceId
from regroup.lab.simulation.timeline import MemberReport
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, FaultEnded, RequestRefused
from regroup.protocol.consumer.subscription import TopicPartition

_STOPS: Final = (Crashes, Restarts, RestartsWithoutInstanceId)
_PAUSES: Final = (Pauses, BecomesZombie)
_STOPPING_FAULTS: Final = (MemberFaultKind.CRASH, MemberFaultKind.RESTART, MemberFaultKind.RESTART_AS_STRANGER)
_PAUSING_FAULTS: Final = (MemberFaultKind.PAUSE, MemberFaultKind.ZOMBIE)


class ReadingTime(NamedTuple):
    """A time during which the same members read a partition; milliseconds since the start of the run."""

    partition: TopicPartition
    began_ms: int
    ended_ms: int
    readers: frozenset[str]


class _Reader(NamedTuple):
    owned: frozenset[TopicPartition] = frozenset()
    is_paused: bool = False

    @property
    def read(self) -> frozenset[TopicPartition]:
        return frozenset() if self.is_paused else self.owned


def reading_times(run: LessonRun) -> Iterator[ReadingTime]:
    """Yield the reading times of every partition: a new one begins whenever the members that read it change.

    The first of a partition begins with its first reader.
    """
    readers: dict[str, _Reader] = {}
    present: dict[TopicPartition, tuple[int, frozenset[str]]] = {}
    for at_ms, item in run.entries:
        found = _changed_reader(run, item, readers)
        if found is None:
            continue
        name, reader = found
        changed = readers.get(name, _Reader()).read ^ reader.read
        readers[name] = reader
        for partition in sorted(changed):
            names = frozenset(each for each, other in readers.items() if partition in other.read)
            if partition in present:
                began_ms, before = present[partition]
                yield ReadingTime(partition, began_ms, at_ms, before)
            present[partition] = at_ms, names
    for partition, (began_ms, names) in present.items():
        yield ReadingTime(partition, began_ms, run.ended_ms, names)


def _changed_reader(run: LessonRun, item: object, readers: dict[str, _Reader]) -> tuple[str, _Reader] | None:
    match item:
        case PlannedStep(step=step) if isinstance(step, _STOPS):
            return step.member, _Reader()
        case PlannedStep(step=step) if isinstance(step, _PAUSES) and step.member in readers:
            return step.member, readers[step.member]._replace(is_paused=True)
        case MemberReport(name=name) if run.plan.members[name].group == run.timeline.group_id:
            return _after_report(item, readers.get(name, _Reader()))
    return None


def _after_report(report: MemberReport, before: _Reader) -> tuple[str, _Reader] | None:
    match report.what:
        case FaultBegan(fault=fault) if fault.kind in _STOPPING_FAULTS:
            return report.name, _Reader()
        case FaultBegan(fault=fault) if fault.kind in _PAUSING_FAULTS:
            return report.name, before._replace(is_paused=True)
        case FaultEnded():
            return report.name, before._replace(is_paused=False)
        case FaultBegan() | RequestRefused():
            return None
    return report.name, before._replace(owned=frozenset(report.owned))
