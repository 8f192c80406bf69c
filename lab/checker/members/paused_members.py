"""Members that pause, and zombies whose member has a new process, which does not know that they go on committing.

paused = PausedMembers()
paused.on_note("anna", note)             # anna pauses, or goes on
"anna" in paused

former = FormerZombies()
former.on_note("anna", note)             # anna becomes a zombie
former.is_by_one("anna", commit)         # False: anna's present process has sent it
former.on_new_life("anna")               # its process has ended by the plan; as a zombie it lives on
former.is_by_one("anna", commit)         # True if it is for the zombie's generation
"""

from collections.abc import Container

from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import OffsetCommitRequest


class PausedMembers(Container[str]):
    """The members of a run that pause, by name: they handle no response before they go on."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note that a member pauses, or goes on."""
        if isinstance(note, FaultEnded):
            self._names.discard(name)
        elif isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.PAUSE:
            self._names.add(name)

    def on_new_life(self, name: str) -> None:
        """Note that a member gets a new process."""
        self._names.discard(name)


class FormerZombies:
    """The zombies of a run, by the names of their members and the generations for which they commit."""

    def __init__(self) -> None:
        self._present: set[str] = set()
        """Members whose present process is a zombie."""
        self._generations: set[tuple[str, str, int]] = set()
        """Name, member id and generation of each zombie that has committed."""

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note that a member becomes a zombie."""
        if isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.ZOMBIE:
            self._present.add(name)

    def on_new_life(self, name: str) -> None:
        """Note that a member gets a new process."""
        self._present.discard(name)

    def is_by_one(self, name: str, message: Message) -> bool:
        """Whether a request that a member sends is a commit of its former process."""
        if not isinstance(message, OffsetCommitRequest):
            return False
        generation = name, message.member_id, message.generation_id_or_member_epoch
        if name in self._present:
            self._generations.add(generation)
            return False
        return generation in self._generations
