"""Farms of tasks: independent calls of one function, done by all processes."""
import functools
import sys

from . import _dmi, _pack, _program, _result
from ._errors import AddressError, TaskError
from ._remote import _at_top, _named

_KINDS = {1: "join", 2: "leave", 3: "loss", 4: "idle", 5: "progress", 6: "note", 7: "few"}


class Event:
    """What happens while a farm runs.

    kind: "join", "leave", "loss" (of process `id`), "idle" (nobody is left: it waits for a process), "few" (it
    waits to begin), "progress" (a hundredth was done), "note" (`value`: of dmi.notify); tasks, done, failed:
    numbers of tasks; processes: that do some; seconds: since the first task.
    """

    def __init__(self, kind, id, value, tasks, done, failed, processes, seconds):
        self.kind = _KINDS.get(kind, "?")
        self.id, self.value, self.tasks, self.done = id, value, tasks, done
        self.failed, self.processes, self.seconds = failed, processes, seconds


def print_event(event):
    """An `event` of a farm that prints who joins, leaves and is lost."""
    said = {"join": f"welcome {event.id}!", "loss": f"lost {event.id}!",
            "leave": (f"no tasks in {event.id} any more (it stays until the end)" if event.value
                      else f"goodbye {event.id}!"),
            "idle": "waiting for a process to join",
            "few": f"waiting to begin: {event.processes} of {event.processes + event.value} processes "
                   "are there"}
    if event.kind in said:
        print(said[event.kind], flush=True)


class Results:
    """What became of the tasks of a farm: r[i], len(r), iteration.

    r[i] is what the task returned; TaskError if it has failed.  failed: how many have; seconds: from the first
    task to the end of the last one.  The memory is freed with this object, or by free().
    """

    def __init__(self, farm, name, tasks, failed, seconds):
        self._farm, self._name, self._tasks = farm, name, tasks
        self.failed, self.seconds = failed, seconds

    def __len__(self):
        return self._tasks

    def __getitem__(self, task):
        if not 0 <= task < self._tasks:
            raise IndexError(f"there is no task {task} of {self._tasks}")
        status, data = _dmi.farm_result(self._there(), task)
        what, _ = _result.load(data)
        if status == 0:
            return what
        host, process, report = what
        raise TaskError(host, f"task {task} of {self._name}", report, process=process)

    def failures(self):
        """The numbers of the tasks that have failed."""
        return [task for task in range(self._tasks if self.failed else 0)
                if _dmi.farm_result(self._there(), task)[0]]

    def _there(self):
        """The farm; AddressError if its results are freed."""
        if self._farm is None:
            raise AddressError(f"DMI_EADDR: the results of {self._name} were freed at {self._freed}", 2)
        return self._farm

    def free(self):
        """Frees the results."""
        farm, self._farm = self._farm, None
        if farm is None:
            return
        self._freed = _program._caller()
        for task in range(self._tasks):
            _result.free(_result._HEAD.unpack_from(_dmi.farm_result(farm, task)[1])[0])
        _dmi.farm_free(farm)

    def __del__(self):
        try:
            if not sys.is_finalizing():
                self.free()
        except Exception:
            pass  # the program has ended, and with it all that belongs to it


def task(function=None, *, result_bytes=_result.SIZE):
    """Makes a function one that is called for each task of a farm: function(number) or function(number, job).

    @dmi.task
    def square(i):
        return i * i

    results = square.farm(1000)

    result_bytes: of a result when it is pickled, about; longer ones take one more access to global memory.
    """
    if function is None:
        return functools.partial(task, result_bytes=result_bytes)
    return Task(_at_top(function), result_bytes)


_none = object()


class Task:
    """A function whose tasks are done by all processes (dmi.task)."""

    def __init__(self, function, result_bytes=_result.SIZE):
        functools.update_wrapper(self, function)
        self.function, self.result_bytes = function, result_bytes

    def __call__(self, *arguments):
        """Calls the function here, as any other."""
        return self.function(*arguments)

    def __reduce__(self):
        return _named(self)

    def farm(self, tasks, job=_none, *, processes=1, threads=1, retries=0, event=None):
        """Has tasks 0 to tasks - 1 done by all processes, and returns their Results.

        job: an object that all tasks get; processes: begin when so many are there; threads: in each process (0: one
        for each core; as Python runs one thread at a time, rather start a process for each core: dmirun -n);
        retries: how often a task that fails is tried again; event: is called with an Event (dmi.print_event prints).

        Processes join and leave meanwhile.  A task of a process that is lost (dmirun --survive) is done again.
        Threads: one at a time in the program, as it handles notices.  Error (DMI_EBUSY) where a client of remote
        functions does so, as with dmi.notices.
        """
        _program._take_notices()
        work = _pack.dumps((self, () if job is _none else (job,)))
        hears = event and (lambda *fields: event(Event(*fields)))
        farm, failed, seconds = _dmi.farm_run(tasks, _result.place_of(self.result_bytes), work, processes, threads,
                                              retries, hears or None)
        return Results(farm, self.__name__, tasks, failed, seconds)


@functools.lru_cache(maxsize=4)
def _work(data):
    return _pack.loads(data)


def _run_task(number, place, data):
    """Does a task; (status, bytes)."""
    name = "a task"
    try:
        what, job = _work(data)
        name = f"task {number} of {what.__name__}"
        return 0, _result.store(what.function(number, *job), place)
    except BaseException:
        report = _result.failure(name)
        return 1, _result.store((_program._host(), _program._own_number(), report), place)
    finally:
        if _dmi.forked():
            _program._fork_ends(1)
        _program._run_ends()
