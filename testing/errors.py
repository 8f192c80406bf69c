"""The errors of the test kit, except WaitTimeout."""


class ActRefused(ValueError):
    """The present state of the emulator or of a group does not allow this act; the message says which state that is."""


class EmulatorDown(RuntimeError):
    """The emulator was not started, was killed, or is closed."""


class UnknownMember(LookupError):
    """No member, or more than one, has this name; the message lists the members."""


class UnknownTopic(LookupError):
    """There is no such topic or partition."""
