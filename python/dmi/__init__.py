"""DMI for Python: one program on machines that come and go, with one global memory.

    import dmi

    def work(counter, n):
        counter.add(n)

    def main():
        counter = dmi.Counter()
        for notice in dmi.notices():
            if notice.state == "open":
                notice.welcome()
                dmi.create(notice, work, counter, 5).join()
                print(counter.value)
            else:
                notice.goodbye()

    dmi.run(main)

    dmirun python3 prog.py                  starts it
    dmirun -i HOST python3 prog.py          joins it, from any machine

    program      run notices nodes rank exit stopping notify peek survive Node
    threads      create Thread this_thread suspend
    arrays       array Array (numpy is used where it is installed)
    memory       mmap munmap read read_into write hold fetch_add swap compare_swap watch name named pool
    together     Mutex Condition Barrier Counter
    tasks        task: functions whose calls all processes share
    remote       remote client gather Future: functions that run where their data is
    looking      status: what a running program is doing

Each process runs the script, so the functions above dmi.run are everywhere; objects go from process to process
pickled.  Sizes and addresses are in bytes.  Calls that fail raise dmi.Error or a class of it, such as
dmi.AddressError; what fails elsewhere raises ThreadError, RemoteError or TaskError, with process, host and traceback.
The interpreter's lock is given away in every call that waits.  Python runs one thread of a process at a time: use
one process for each core (dmirun -n 4 python3 prog.py), and numpy.  A process that was forked (os.fork) cannot use dmi.
"""
import sys as _sys

try:
    from . import _dmi
except ImportError as _error:
    raise ImportError(
        f"the compiled part of dmi does not load in Python {_sys.version.split()[0]} ({_sys.executable}): {_error}; it "
        "needs Python 3.11 or later, and libdmi") from _error

from ._errors import (AddressError, BrokenError, EndError, Error, FailedError, InactiveError, InvalidError,
                      LostError, NoMemoryError, OwnerDeadError, RangeError, RemoteError, TaskError, ThreadError)
from ._farm import Event, Results, Task, print_event, task
from ._memory import (EXCLUSIVE_ATOMIC, EXCLUSIVE_WRITE, GET_READ, INVALIDATE_READ, PUT_ATOMIC, PUT_WRITE,
                      UPDATE_READ, Array, array, compare_swap, fetch_add, hold, mmap, munmap, name, named, pool,
                      read, read_into, swap, watch, write)
from ._program import (Node, Thread, create, exit, nodes, notices, notify, peek, rank, run, stopping, survive,
                       suspend, this_thread)
from ._remote import Client, Future, Remote, client, gather, remote
from ._status import Status, status
from ._sync import Barrier, Condition, Counter, Mutex

_elsewhere = {"Lock": "Mutex", "RLock": "Mutex", "current_thread": "this_thread"}


def __getattr__(name):
    """Names that programs know from threading."""
    hint = f"; of threads in several processes it is dmi.{_elsewhere[name]}" if name in _elsewhere else ""
    about = {} if hint else {"name": name, "obj": _sys.modules[__name__]}  # by these Python finds a similar name
    raise AttributeError(f"module 'dmi' has no attribute '{name}'{hint}", **about)


__version__ = _dmi.version
__all__ = [_name for _name, _what in globals().items() if _name[0] != "_" and not isinstance(_what, type(_sys))]
