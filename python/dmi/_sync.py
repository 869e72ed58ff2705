"""Mutexes, conditions, barriers: objects in global memory, for threads of all processes."""
import struct
import threading

from . import _dmi, _memory
from ._errors import InvalidError, OwnerDeadError

_SIZES = {"mutex": 16, "cond": 16, "barrier": 40}  # bytes, as in dmi_api.h


class _Shared:
    """An object at a global address: its own memory, or `address`, whose bytes are zero then."""

    def __init__(self, address=None):
        self.address, self._own = address, address is None
        if self._own:
            self.address = _dmi.malloc(_SIZES[self._kind], 4096)
            getattr(_dmi, self._kind + "_init")(self.address)

    def __reduce__(self):
        return type(self), (self.address,)

    def __repr__(self):
        return f"<dmi.{type(self).__name__} at {self.address:#x}>"

    def __eq__(self, other):
        return type(self) is type(other) and self.address == other.address

    def __hash__(self):
        return hash((self._kind, self.address))

    def destroy(self):
        """Ends it; no thread may use it (DMI_EBUSY)."""
        getattr(_dmi, self._kind + "_destroy")(self.address)
        if self._own:
            _dmi.free(self.address)
            self._own = False


class Mutex(_Shared):
    """Mutual exclusion of threads of all processes, first come, first served: `with mutex:`.

    Made without an address it has memory of its own; one that is unpickled in another process is the same
    mutex.  16 bytes of a global address that are zero are an unlocked mutex: Mutex(address).

    When a process is lost that held it (dmirun --survive) the next lock raises OwnerDeadError: by lock()
    the caller holds it then, mends what it guards, and calls consistent().  `with` unlocks it again first.
    """

    _kind = "mutex"

    def lock(self):
        """Waits until no other thread holds it.  Locking it twice: Error with DMI_EHOLDER."""
        _dmi.mutex_lock(self.address)

    def unlock(self):
        """Gives it to the thread that has waited longest."""
        _dmi.mutex_unlock(self.address)

    def trylock(self):
        """Locks it if no thread holds it; True if so."""
        return _dmi.mutex_trylock(self.address)

    acquire, release = lock, unlock  # as those of threading.Lock

    def consistent(self):
        """Says that what it guards is in order again, after OwnerDeadError."""
        _dmi.mutex_consistent(self.address)

    def __enter__(self):
        try:
            _dmi.mutex_lock(self.address)
        except OwnerDeadError:
            _dmi.mutex_unlock(self.address)
            raise
        return self

    def __exit__(self, *_):
        _dmi.mutex_unlock(self.address)


class Condition(_Shared):
    """A condition; `with condition:` locks its mutex.  16 bytes of global memory."""

    _kind = "cond"

    def __init__(self, mutex=None, address=None):
        super().__init__(address)
        self.mutex = Mutex() if mutex is None else mutex

    def __reduce__(self):
        return Condition, (self.mutex, self.address)

    def wait(self):
        """Unlocks the mutex, waits for notify, and locks it again; test the condition in a loop.

        EndError: the program is ending; the mutex is locked.
        """
        _dmi.cond_wait(self.address, self.mutex.address)

    def wait_for(self, predicate):
        """Waits until predicate() is true, which is called with the mutex locked; returns its value."""
        while not (value := predicate()):
            self.wait()
        return value

    def notify(self):
        """Wakes the thread that has waited longest."""
        _dmi.cond_signal(self.address)

    def notify_all(self):
        """Wakes all threads that wait now."""
        _dmi.cond_broadcast(self.address)

    def __enter__(self):
        self.mutex.__enter__()
        return self

    def __exit__(self, *_):
        self.mutex.__exit__()


_OPS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "and": 5, "or": 6, "xor": 7}
_TYPES = {"i": 1, "q": 2, "l": 2, "f": 3, "d": 4}


class Barrier(_Shared):
    """A barrier; each round may have other threads, and another number of them.  40 bytes.

    barrier.wait(n) waits until n threads have called it.  Each thread uses what it needs of its own, so the
    same object may be used by all threads of a process.

    with barrier.of(n): waits before the block, and again behind it.
    """

    _kind = "barrier"

    def __init__(self, address=None):
        super().__init__(address)
        self._mine = threading.local()

    def _local(self):
        found = getattr(self._mine, "found", None)
        if found is None:
            found = self._mine.found = _Local(self.address)
        return found.number

    def wait(self, num):
        """Waits for the round's other threads.

        InvalidError: another `num` than that of the round's first thread.  BrokenError: a process was lost.
        """
        _dmi.barrier_sync(self._local(), num)

    def reduce(self, value, num, op="sum"):
        """Waits, and combines numbers of all threads of the round; all get the same result.

        value: an int (64 bits) or a float, or a writable buffer of int32, int64, float or double, such as a
        numpy array, which gets the result.  op: sum, prod, min, max, and for integers and, or, xor.
        """
        if op not in _OPS:
            raise InvalidError(f"{op!r} is no operation: {', '.join(_OPS)}", 1)
        if not isinstance(value, (int, float)):
            view = memoryview(value)
            if view.format not in _TYPES or not view.c_contiguous:
                raise InvalidError(f"elements of format {view.format!r} cannot be combined", 1)
            _dmi.barrier_reduce(self._local(), _OPS[op], _TYPES[view.format], view, num)
            return value
        code = "d" if isinstance(value, float) else "q"
        data = bytearray(struct.pack(code, value))
        _dmi.barrier_reduce(self._local(), _OPS[op], _TYPES[code], data, num)
        return struct.unpack(code, data)[0]

    def of(self, num):
        """For `with`: all of `num` threads begin the block together, and leave it together."""
        return _Round(self, num)


class _Local:
    """What a thread needs of its own for a barrier; ends with the thread."""

    def __init__(self, address):
        self.number = _dmi.local_barrier(address)

    def __del__(self):
        try:
            _dmi.local_barrier_destroy(self.number)
        except Exception:
            pass  # the program has ended, and with it all that belongs to it


class _Round:
    def __init__(self, barrier, num):
        self.barrier, self.num = barrier, num

    def __enter__(self):
        self.barrier.wait(self.num)

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.barrier.wait(self.num)


class Counter:
    """An int of 64 bits in global memory that threads of all processes add to; 8 bytes."""

    def __init__(self, address=None):
        self.address = _dmi.malloc(8, 4096) if address is None else address
        if address is None:
            _dmi.write(self.address, bytes(8), _memory.PUT_WRITE)

    def __reduce__(self):
        return Counter, (self.address,)

    def add(self, number=1):
        """Adds in one step, and returns what it was before."""
        return _dmi.fetch_add(self.address, number, _memory.PUT_ATOMIC)

    @property
    def value(self):
        """What it is now."""
        return struct.unpack("q", _dmi.read(self.address, 8, _memory.GET_READ))[0]
