"""Exceptions for calls of DMI that fail."""
import os

from . import _dmi


class Error(Exception):
    """A call of DMI has failed.

    number: the error number of dmi_api.h (DMI_errno); name: such as "DMI_EADDR".
    Subclasses are named after the number: AddressError (EADDR), RangeError (ERANGE), ...
    """

    number = 0

    def __init__(self, text=None, number=None):
        if number is not None:
            self.number = number
        self.name, sentence = _dmi.error_text(self.number)
        super().__init__(text or f"{self.name}: {sentence}")


class AddressError(Error, LookupError):
    """DMI_EADDR: the address is in no mapping."""


class RangeError(Error, IndexError):
    """DMI_ERANGE: the range leaves its mapping, or must lie in one page and does not."""


class InvalidError(Error, ValueError):
    """DMI_EINVAL, DMI_ESIZE: an argument is outside of its domain."""


class NoMemoryError(Error, MemoryError):
    """DMI_ENOMEM: no process has memory left for pages."""


class LostError(Error):
    """DMI_ELOST: the page, thread or value was lost with a process."""


class OwnerDeadError(Error):
    """DMI_EOWNERDEAD: a process was lost that held this mutex; the caller holds it now."""


class BrokenError(Error):
    """DMI_EBROKEN: a process was lost, and the round of the barrier does not end."""


class EndError(Error):
    """DMI_EEND: the program is ending (dmi.exit), and nothing is waited for."""


class InactiveError(Error):
    """DMI_EINACTIVE: the program does not run; calls are for functions that dmi.run runs."""


class FailedError(Error):
    """Something that ran elsewhere has failed.

    host, process: where it ran (process: its number; None: not known); what: the function; report: its
    traceback, or what is known of it.
    """

    def __init__(self, host, what, report, number=None, process=None):
        self.host, self.what, self.report, self.process = host, what, report, process
        place = f"on {host}" if process is None else f"in process {process} on {host}"
        super().__init__(f"{what} has failed {place}:\n{report}", number)

    def __reduce__(self):
        return type(self), (self.host, self.what, self.report, None, self.process)


class ThreadError(FailedError):
    """A thread has ended with an exception, which dmi.Thread.join gets."""

    def _brief(self):
        """The same without the traceback, which the process of the thread has printed."""
        other = ThreadError(self.host, self.what, self.report, process=self.process)
        last = (self.report.rstrip().splitlines() or [""])[-1]
        other.args = (f"{self.args[0].split(chr(10), 1)[0].rstrip(':')}, which has printed the traceback: {last}",)
        other.__cause__, other.__context__ = self.__cause__, self.__context__
        other.__suppress_context__ = self.__suppress_context__
        return other


class RemoteError(FailedError):
    """DMI_EREMOTE: a remote function has failed, or one whose result it needs."""

    number = 20


class TaskError(FailedError):
    """A task of a farm has failed."""


_classes = {1: InvalidError, 2: AddressError, 3: RangeError, 4: InvalidError, 5: NoMemoryError,
            13: InactiveError, 16: LostError, 17: OwnerDeadError, 18: BrokenError, 19: EndError}
_hints = {
    5: "; views that are held count, too",
    13: "\ndmi.run(main) starts the program; call dmi in main, and in what main has run",
}


def make(number, reason):
    """The exception for an error number, and what the library knows of the reason (or None)."""
    name, sentence = _dmi.error_text(number)
    text = f"{name}: {reason or sentence}{_hints.get(number, '')}"
    return _classes.get(number, Error)(text, number)


_dmi.set_package(os.path.dirname(__file__))
_dmi.set_error_maker(make)
