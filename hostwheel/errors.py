"""What can go wrong, by who has to act. Only `__main__` turns these into exit codes."""


class HostwheelError(Exception):
    """Base of all errors with a message for people: what was found, where, and what to do next."""

    exit_code = 1


class Refused(HostwheelError):
    """A check looked at a finished thing and said no."""

    exit_code = 1


class BadInput(HostwheelError):
    """A recipe, host file, archive or argument is wrong; nothing was written."""

    exit_code = 2


class MachineLacks(HostwheelError):
    """This machine lacks a program, memory, disk or network; the message says how to get it."""

    exit_code = 3


class StepFailed(HostwheelError):
    """A tool that was run for the user failed."""

    exit_code = 1
