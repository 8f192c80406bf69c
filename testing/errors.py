"""The errors of the kit, beside WaitTimeout."""


class ActRefused(ValueError):
    """The emulator or a group is in no state for this act; the message says which state it is in."""


class EmulatorDown(RuntimeError):
    """The emulator was not started, was killed, or is closed."""


class UnknownMember(LookupError):
    """No member, or more than one, has this name; the message lists the members."""


class UnknownTopic(LookupError):
    """There is no such topic or partition."""
