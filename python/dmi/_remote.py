"""Remote functions: calls that run in some process, and results that stay where they were made."""
import functools
import io
import pickle
import re
import sys
import threading
import weakref

from . import _dmi, _pack, _program, _result
from ._errors import Error, RemoteError

_MOST = 16  # values of other calls that a call may name; it waits for further ones
_mine = threading.local()  # .client: of this thread; .calls: it runs a remote function
_FROM = re.compile(r"(.*?)(?: of process (\d+))?", re.S)  # what has failed, and where
_main = []  # the client of main, for threads that Python has made


def _named(what):
    """How a decorated function is pickled: by its module and name."""
    return _find, (what.__module__, what.__qualname__)


def _at_top(function):
    """Refuses what other processes could not find by its name."""
    name = getattr(function, "__qualname__", "")
    if "<" in name:
        raise TypeError(f"{name} cannot be found by its name in other processes: the function must be at the top level "
                        "of the script or of a module, and no lambda")
    return function


def _find(module, name):
    __import__(module)
    found = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found


class Client:
    """Issues calls of remote functions, and knows their results (dmi.client)."""

    def __init__(self, processes=0, own_poll=False, call_bytes=0, implicit=False):
        self._number = _dmi.client_open(own_poll, processes, call_bytes)
        self._dropped = []  # names that are to be given back: by the collector, in any thread
        self._unread = set()  # values of futures whose results nobody has read
        self._implicit, self._thread = implicit, threading.get_ident()
        self._before = getattr(_mine, "client", None)
        _mine.client = self
        if not hasattr(_program._at_end, "calls"):
            _program._at_end.calls = []
        _program._at_end.calls.append(self.close)
        self._polls = not own_poll
        if not getattr(_mine, "calls", False):
            _program._clients.append(self)
        if threading.current_thread() is threading.main_thread():
            _main[:] = [self]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Waits until all calls are done, and forgets their results."""
        number, self._number = self._number, None
        if number is None:
            return
        while getattr(_mine, "client", None) and _mine.client._number is None:
            _mine.client = _mine.client._before
        if self in _main:
            _main.clear()
        if self in _program._clients:
            _program._clients.remove(self)
        at_end = getattr(_program._at_end, "calls", [])
        if self.close in at_end:
            at_end.remove(self.close)
        self._sweep(number)
        _dmi.client_close(number)

    def _sweep(self, number):
        while self._dropped:
            value = self._dropped.pop()
            self._unread.discard(value)
            value.give_back(number)

    def _ends(self, does, instead):
        """Closes it where only its first call has opened it, and nothing is left to do; else an Error says what it
        does, and what to do instead."""
        mine = self._thread == threading.get_ident()
        if mine and self._number is not None:
            self._sweep(self._number)
        if mine and self._implicit and not self._unread:
            self.close()
            return
        who = "a client of remote functions" if mine else "a client of remote functions of another thread"
        if not self._implicit:
            text = f"{who}, which dmi.client has opened, {does}: close it first, or {instead}"
        elif self._unread:
            text = (f"{who} {does}, as {len(self._unread)} of its results have not been read: read or delete these "
                    f"futures first, or {instead}")
        else:
            text = f"{who} {does}: {instead}"
        raise Error(f"DMI_EBUSY: {text}", 8)

    def call(self, function, arguments, named, node=-1, size=_result.SIZE):
        """Issues a call; its Future.  @dmi.remote functions do so."""
        if self._number is None:
            raise Error("the client of remote functions is closed", 1)
        if self._dropped:
            self._sweep(self._number)
        futures = []
        try:
            what = _pack.dumps((function, arguments, named))
        except _HasFuture:
            what, futures = _with_futures(self, (function, arguments, named))
        values = tuple(future._value.name for future in futures)
        name = _dmi.call(self._number, node, what, values, _result.place_of(size))
        value = _Value(name, _result.place_of(size), [future._value for future in futures])
        self._unread.add(value)
        return Future(self, value)


def client(processes=0, own_poll=False, call_bytes=0):
    """Opens a client, which calls of remote functions in this thread use from now on: `with dmi.client(4):`.

    processes: waits until so many processes serve, this one among them; own_poll: the program handles notices
    itself; call_bytes: of calls that are not done, with their results (0: 64 MiB): calls wait above it.
    Without one the first call opens a client, which is closed when main, or the thread's function, ends, or when
    main asks for notices.  It handles notices when main has made the call, and has no iterator of them (dmi.notices).
    """
    return Client(processes, own_poll, call_bytes)


def _client():
    found = getattr(_mine, "client", None)
    if found is None and _main and threading.current_thread().name.startswith("Thread-"):
        found = _main[0]
    return found or Client(own_poll=bool(_program._iterating) or getattr(_program._in_thread, "yes", False), implicit=True)


class _HasFuture(Exception):
    """There is a future among what is to be packed."""


class _Value:
    """The name of a result, given back when nothing needs it any more."""

    def __init__(self, name, size, needs):
        self.name, self.size = name, size
        self.needs = needs  # results of others that the call needs, until it is done
        self.address = 0  # of memory that is to be freed with it

    def give_back(self, number):
        # What lies in global memory is known only when the call is done.
        try:
            if self.address == 0 and self.size:
                self.address = _result._HEAD.unpack(_dmi.data_read(number, self.name, 0,
                                                                   _result._HEAD.size))[0]
        except Exception:
            pass  # it has failed
        _result.free(self.address)
        try:
            _dmi.data_drop(number, self.name)
        except Exception:
            pass


class Future:
    """The result of a call that may not have been made yet.

    It may be an argument of further calls, which then wait for it, and run where it is if they can.
    """

    def __init__(self, client, value):
        self._client, self._value = client, value
        self._known = self._failure = None
        weakref.finalize(self, client._dropped.append, value).atexit = False

    def __reduce__(self):
        raise _HasFuture("a Future may be an argument of a call, but cannot be stored or returned by one: "
                         "return its result()")

    def wait(self):
        """Waits until the call is done.  RemoteError: it has failed."""
        if self._known is None:
            self._read(0)

    def result(self):
        """Waits for the call; what it has returned.  RemoteError: it, or one that it needs, has failed."""
        if self._known is None:
            result, self._value.address = _result.load(self._read(self._value.size))
            self._value.size = 0 if not self._value.address else self._value.size
            self._value.needs = []
            self._known = (result,)
            self._client._unread.discard(self._value)
        return self._known[0]

    def _read(self, size):
        number = self._client._number
        if self._failure:
            raise RemoteError(*self._failure)
        if number is None:
            raise Error("the client of this call is closed, and its results are forgotten", 1)
        try:
            return _dmi.data_read(number, self._value.name, 0, size)
        except Error as error:
            if error.number != RemoteError.number:
                raise
            host, _, report = _dmi.data_failure(number, self._value.name)
        head, _, text = report.partition("\n")
        what, process = _FROM.fullmatch(head).groups()
        self._failure = host, what, text or report, None, process and int(process)
        self._client._unread.discard(self._value)
        raise RemoteError(*self._failure)


def gather(futures):
    """The results of several calls, in their order."""
    return [future.result() for future in futures]


class _Pickler(pickle.Pickler):
    """Has arrays in its text, and names futures of `client`; those of others are their results."""

    def __init__(self, file, client):
        super().__init__(file, 5)
        self.futures, self.client = [], client

    def persistent_id(self, what):
        if not isinstance(what, Future):
            return None
        if what._client is not self.client or len(self.futures) >= _MOST and what not in self.futures:
            return ("r", what.result())
        if what not in self.futures:
            self.futures.append(what)
        return ("i", self.futures.index(what))


def _with_futures(client, what):
    """A call of this client with futures among its arguments, and these."""
    file = io.BytesIO()
    pickler = _Pickler(file, client)
    pickler.dump(what)
    return b"\2" + file.getvalue(), pickler.futures


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, inputs):
        super().__init__(file)
        self.inputs = inputs

    def persistent_load(self, what):
        return self.inputs[what[1]] if what[0] == "i" else what[1]


def _run_remote(data, inputs, place):
    """Runs a call; the bytes of its result."""
    name = "a remote function"
    _mine.calls = True
    try:
        if data[0] == 2:
            values = [_result.load(value)[0] for value in inputs]
            function, arguments, named = _Unpickler(io.BytesIO(memoryview(data)[1:]), values).load()
        else:
            function, arguments, named = _pack.loads(data)
        name = f"remote function {function.__name__}"
        return _result.store(function.function(*arguments, **named), place)
    except BaseException:
        report = _result.failure(name)
        # A sentence has about a thousand bytes; the end of a traceback says most.
        raise RuntimeError(f"{name}{_program._of_process()}\n{report[-900:]}") from None
    finally:
        if _dmi.forked():
            _program._fork_ends(1)
        _program._run_ends()
        _mine.calls = False


def remote(function=None, *, result_bytes=_result.SIZE):
    """Makes a function one that runs in some process: a call returns a Future at once.

    @dmi.remote
    def add(a, b):
        return a + b

    total = add(add(1, 2), 3).result()

    Arguments are pickled, and so is what it returns; Futures among the arguments are awaited by the call itself.
    A function should only compute its result, as it may run again when a process is lost (dmirun --survive).

    result_bytes: of the result when it is pickled, or a function that tells it of the arguments.  Up to so many
    bytes stay in the process as a value, to which further calls come; longer results take global memory.
    f.on(node, ...) runs in a certain process; f.function(...) calls it here.
    """
    if function is None:
        return functools.partial(remote, result_bytes=result_bytes)
    return Remote(_at_top(function), result_bytes)


class Remote:
    """A function that runs in some process (dmi.remote)."""

    def __init__(self, function, result_bytes=_result.SIZE):
        functools.update_wrapper(self, function)
        self.function, self.result_bytes = function, result_bytes

    def __reduce__(self):
        return _named(self)

    def _size(self, arguments, named):
        return self.result_bytes(*arguments, **named) if callable(self.result_bytes) else self.result_bytes

    def __call__(self, *arguments, **named):
        return _client().call(self, arguments, named, size=self._size(arguments, named))

    def on(self, node, *arguments, **named):
        """Issues a call that is to run in process `node` (a number, or a Node)."""
        return _client().call(self, arguments, named, getattr(node, "id", node), self._size(arguments, named))
