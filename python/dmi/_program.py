"""The program: its beginning and end, its processes, its threads."""
import hashlib
import os
import platform
import socket
import struct
import sys
import threading
import traceback
from dataclasses import dataclass

from . import _dmi, _pack
from ._errors import EndError, Error, ThreadError

_STATES = {1: "open", 2: "close", 3: "opened", 4: "lost", 5: "note"}
_at_end = threading.local()  # .calls: to be called when the function of this thread ends
_in_thread = threading.local()  # .yes: this is a thread that dmi.create has started
_NAME_LONGEST = 63  # bytes of a program's name that another process is told: struct dmi_hello
_iterating = []  # an entry for each iterator of notices that lives in this process
_clients = []  # clients of remote functions that main and threads of this process have opened


def _host():
    return socket.gethostname()


def _python_version():
    return f"{platform.python_implementation()} {platform.python_version()}"


def _script():
    """The script's name for messages, and its bytes."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        words = sys.orig_argv
        text = words[words.index("-c") + 1] if "-c" in words[:-1] else ""
        return "python -c", text.encode()
    with open(path, "rb") as file:
        return os.path.basename(path), file.read()


def _own_modules():
    """What the script has imported from its own directory: names relative to that, and paths."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None:
        return []
    here, found = os.path.dirname(os.path.abspath(script)), {}
    for name, module in list(sys.modules.items()):
        path = os.path.abspath(getattr(module, "__file__", None) or "")
        words = os.path.relpath(path, here).split(os.sep)
        installed = {"..", "site-packages", "dist-packages"}.intersection(words)
        if name != "__main__" and name.split(".")[0] != "dmi" and path.endswith(".py") and not installed:
            found["/".join(words)] = path
    return sorted(found.items())


def _identity():
    """What must be the same in all processes: its name for messages, and as a text.

    That is the script, the modules of its own directory that it has imported by now, and the version of Python.
    """
    name, text = _script()
    files = [(name, hashlib.sha256(text))]
    for module, path in _own_modules():
        with open(path, "rb") as file:
            files.append((module, hashlib.sha256(file.read())))
    # The script's own name does not matter.
    everything = hashlib.sha256(b"".join(
        f"\0{module if at else ''}\0".encode() + digest.digest() for at, (module, digest) in enumerate(files)))
    version = f"{_python_version().replace('CPython', 'Python')}, dmi {_dmi.version}"
    shown = [f"{module.replace(',', '_')} {digest.hexdigest()[:6]}" for module, digest in files]
    if len(", ".join([*shown, version])) > _NAME_LONGEST:
        modules = hashlib.sha256(b"".join(digest.digest() for _, digest in files[1:])).hexdigest()[:6]
        shown = [f"{name.replace(',', '_')[:12]} {files[0][1].hexdigest()[:6]}", f"{len(files) - 1} modules {modules}"]
    return ", ".join([*shown, version]), f"{everything.hexdigest()} {version}"


def _trace(brief=False):
    """The traceback of the exception that is handled, without the lines of this package.

    brief: of a thread that has failed, where its traceback is printed, only the last line of that.
    """
    kind, error, trace = sys.exc_info()
    here = os.path.dirname(__file__)
    while trace and trace.tb_next and os.path.dirname(trace.tb_frame.f_code.co_filename) == here:
        trace = trace.tb_next
    if brief and kind is ThreadError:
        error = error._brief()
    lines = traceback.TracebackException(kind, error, trace)
    while isinstance(error, Error) and len(lines.stack) > 1 and os.path.dirname(lines.stack[-1].filename) == here:
        lines.stack.pop()
    return "".join(lines.format())


def _own_number():
    """The number of this process; None if it is none of the program yet, or not any more."""
    try:
        return None if _dmi.forked() else _dmi.rank()
    except Exception:
        return None


def _of_process():
    """Which process of the program this is, for messages."""
    number = _own_number()
    return "" if number is None else f" of process {number}"


def _caller():
    """The line that has called this package, for messages: "prog.py:42 (main)"."""
    here, frame = os.path.dirname(__file__), sys._getframe(1)
    while frame.f_back and os.path.dirname(frame.f_code.co_filename) == here:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} ({frame.f_code.co_name})"


def _report(what, text):
    """Prints what an exception says, with the process and host, all at once."""
    lines = f"dmi: {what}{_of_process()} on {_host()}:\n{text}"
    sys.stdout.flush()
    sys.stderr.write(lines if lines.endswith("\n") else lines + "\n")
    sys.stderr.flush()


def _run_ends():
    """Closes what the function of this thread has opened and not closed."""
    for call in list(getattr(_at_end, "calls", [])):
        try:
            call()
        except Exception:
            traceback.print_exc()
    _at_end.calls = []


def _fork_ends(status):
    """This process was forked by the function that ends now, and runs nothing of the program."""
    sys.stdout.flush()
    if status is None:
        _report("process forked", "a process that was made by fork must end by os._exit, and not "
                "return from a function that dmi runs\n")
        status = 1
    sys.stderr.flush()
    os._exit(status)


def _guarded(what, function, *arguments):
    """Calls the main function.  True if it has not failed."""
    good, status = True, None
    try:
        function(*arguments)
    except SystemExit as error:
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        status = (code or 0) & 255
    except BaseException:
        _report(f"exception in {what}", _trace(brief=True))
        good, status = False, 1
    if _dmi.forked():
        _fork_ends(status)
    _run_ends()
    if status:
        try:
            _dmi.exit(status)
        except Exception:
            pass  # it is ending already
    return good


def run(main, *, recover=None):
    """Starts the program, or joins one (dmirun -i), and ends the process when that has ended.

    main: is called without arguments, in the process that was started without -i; sys.argv has the
        arguments of the script.  When it has returned and no thread runs in any process, all end.
        An exception in it is printed, and ends the program with status 1; sys.exit(n) with n.
    recover: in a program that survives losses (dmirun --survive) is called with the number of the
        lost process when main was lost with it, in another process, and goes on in its place.

    It does not return, but raises SystemExit with the exit status of the program.  All processes must
    run the same script by the same version of Python: others are refused.  The script itself is run
    by each process, so what is above dmi.run is defined everywhere; nothing else should be there.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    name, text = _identity()
    from ._farm import _run_task
    from ._remote import _run_remote
    status = _dmi.run(
        sys.argv or [name], name, text, lambda: _guarded("main", main), _run_thread,
        recover and (lambda lost: _guarded("recover", recover, lost)), _run_task, _run_remote)
    sys.exit(status)


# ---- Processes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A process of the program.

    state: "opened" (a member), or of a notice "open" (asks to join), "close" (asks to leave), "lost"
    (dmirun --survive), "note" (dmi.notify); id: its number, that may be used again when it has left;
    cores: processor cores that it may use; memory: bytes that it lends; host: its name; value: of a
    note.
    """

    state: str
    id: int
    cores: int
    memory: int
    host: str
    value: int = 0

    def welcome(self):
        """Admits a process that asks to join; then it can have threads (create)."""
        _dmi.welcome(self.id)

    def goodbye(self):
        """Dismisses a process that asks to leave, when its threads have ended; its pages go to others.

        NoMemoryError: these have no memory; the notice comes again when there may be some.  Error (DMI_EBUSY):
        threads run there, or a client of remote functions is open there.
        """
        if _clients and self.id == rank():
            for client in reversed(_clients):
                client._ends("is open in this process", "close dmi.client")
        _dmi.goodbye(self.id)


def _node(fields):
    return Node(_STATES.get(fields[0], "?"), *fields[1:])


def _take_notices():
    """Makes the caller the one that handles notices; Error (DMI_EBUSY) if a client has to go on doing so."""
    for client in reversed(_clients):
        if client._polls:
            client._ends("handles the notices", "have dmi.client(own_poll=True) leave them to the program")


class _Notices:
    def __init__(self):
        _iterating.append(None)

    def __iter__(self):
        return self

    def __next__(self):
        _take_notices()
        try:
            return _node(_dmi.poll())
        except EndError:
            raise StopIteration from None

    def __del__(self):
        _iterating.pop()


def notices():
    """Iterates over the notices of the program as they come, and ends when the program is ending.

    Each is a Node, given to one caller only: a process asks to join ("open") or to leave ("close"), was
    lost, or has called notify.  The first is the "open" of the first process itself.

    A client of remote functions handles notices itself.  One that the first call has opened is closed here;
    Error (DMI_EBUSY) if results of it have not been read yet, or if dmi.client has opened it.  While there is the
    iterator, calls open clients that leave the notices to it.
    """
    _take_notices()
    return _Notices()


def peek():
    """The next notice if there is one now, else None.  Error (DMI_EBUSY) as with notices()."""
    _take_notices()
    fields = _dmi.peek()
    return fields and _node(fields)


def nodes():
    """The members of the program now, as a list of Node."""
    return [_node(fields) for fields in _dmi.nodes()]


def rank():
    """The number of this process."""
    return _dmi.rank()


def exit(status=0):
    """Ends the program in order, in all processes, with this exit status (0 to 255).

    It returns: the caller should return soon, too.  Threads that work for long ask stopping().
    """
    _dmi.exit(status)


def stopping():
    """True when the program is ending (exit)."""
    return _dmi.stopping()


def notify(value):
    """Puts a note into the queue of notices; value: an int of 64 bits."""
    _dmi.notify(value)


def survive():
    """Makes the program go on without processes that are lost, as dmirun --survive; first in main."""
    _dmi.survive(0)


# ---- Objects for others, in global memory -------------------------------------------------------

_LENGTH = struct.Struct("<q")
_PUT_WRITE, _GET_READ = 5, 3


def _put(what):
    """Puts an object into global memory for one who takes it; its address."""
    data = _pack.dumps(what)
    size = _LENGTH.size + len(data)
    address = _dmi.malloc(size, 4096 if size <= 4096 else 65536)
    _dmi.write(address, _LENGTH.pack(len(data)) + data, _PUT_WRITE)
    return address


def _look(address):
    """The object, which stays there."""
    (size,) = _LENGTH.unpack(_dmi.read(address, _LENGTH.size, _GET_READ))
    data = bytearray(size)
    _dmi.read_into(address + _LENGTH.size, data, _GET_READ)
    return _pack.loads(data)


def _take(address):
    """The object, whose memory is freed."""
    what = _look(address)
    _dmi.free(address)
    return what


# ---- Threads ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thread:
    """A thread of the program, in any process; may be given to other processes."""

    handle: tuple

    def join(self):
        """Waits for its end; what its function has returned.  Once, by any thread of the program.

        ThreadError: the function has raised an exception; its process, host and traceback are told.
        LostError: the thread was lost with its process.
        """
        address = _dmi.join(*self.handle)
        if address == 0:
            return None
        good, *what = _take(address)
        if good:
            return what[0]
        host, process, name, report = what
        raise ThreadError(host, name, report, process=process)

    def detach(self):
        """Says that nobody will join it."""
        _dmi.detach(*self.handle)

    def wake(self):
        """Wakes it from suspend; one wake is kept if it does not sleep."""
        _dmi.wake(*self.handle)


def create(node, function, *arguments):
    """Starts a thread that calls function(*arguments) in a process.

    node: its number, or a Node; function: of the top level of the script or of a module; arguments, and
    what it returns: anything that can be pickled, also Array, Mutex and the like.
    An exception in it is printed there, and raised by Thread.join.
    """
    if not callable(function):
        raise TypeError(f"{function!r} is no function")
    address = _put((function, arguments))
    try:
        return Thread(_dmi.create(getattr(node, "id", node), address))
    except BaseException:
        _dmi.free(address)
        raise


def _run_thread(address):
    """The body of each thread; the address of what its function has returned, or 0 for None."""
    name, status = "a thread", None
    _in_thread.yes = True
    try:
        function, arguments = _take(address)
        name = f"thread function {getattr(function, '__name__', function)!s}"
        result = function(*arguments)
        answer = None if result is None else (True, result)
        if not _dmi.forked():
            return 0 if answer is None else _put(answer)
    except SystemExit as error:
        if _dmi.forked():
            status = error.code if isinstance(error.code, int) else 0
            return None
        if not error.code:
            return 0
        report = _trace()
        _report(f"sys.exit in {name}, which ends this thread only (dmi.exit ends the program),", report)
        return _put((False, _host(), _own_number(), name, report))
    except BaseException:
        report = _trace()
        _report(f"exception in {name}", report)
        status = 1
        return None if _dmi.forked() else _put((False, _host(), _own_number(), name, report))
    finally:
        if _dmi.forked():
            _fork_ends(status)
        _run_ends()


def this_thread():
    """The Thread that calls, for others to wake it; not in main."""
    return Thread(_dmi.self())


def suspend():
    """Sleeps until another thread wakes this one (Thread.wake); not in main."""
    _dmi.suspend()
