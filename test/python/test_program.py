"""Programs in Python: beginning, threads, processes that join and leave, exceptions, what is refused."""
import re
import sys

import pytest

HELLO = """
    import sys
    import dmi

    def hello(name, other):
        return f"{name} from {dmi.rank()}", other

    def main():
        for notice in dmi.notices():
            if notice.state == "open":
                notice.welcome()
                print(*dmi.create(notice, hello, "hello", [notice.id, sys.argv[1:]]).join())
            elif notice.state == "close":
                notice.goodbye()
                if notice.id == 0:
                    return

    dmi.run(main)
    """


def test_joins_and_leaves(programs):
    """Processes join, run threads, leave; the last one ends it; arguments are for all."""
    first = programs.start(HELLO, "a", "b")
    first.expect(r"^hello from 0 \[0, \['a', 'b'\]\]$")
    second = programs.start(HELLO, join=first)
    first.expect(r"^hello from 1 \[1, \['a', 'b'\]\]$")
    third = programs.start(HELLO, "c", join=first)
    first.expect(r"^hello from 2 \[2, \['a', 'b'\]\]$")
    second.interrupt()
    second.expect_err("=== left ===")
    second.ends()
    for process in third, first:
        process.interrupt()
        process.expect_err("=== left ===")
        process.ends()


SEVERAL = """\
#!%s
import sys
import dmi

def where():
    return dmi.rank(), sys.argv[1:]

def main():
    for notice in dmi.notices():
        notice.welcome()
        if notice.id == 1:
            print(dmi.create(notice, where).join())
            return

dmi.run(main)
"""


@pytest.mark.parametrize("words", ["PYTHON ./several.py a", "PYTHON -u HERE/several.py a", "env PYTHON several.py a",
                                   "./several.py a", "bash -c ./several.py"])
def test_several(programs, words):
    """dmirun -n with each way to start a script, as the user would; and it finds the module by itself."""
    path = programs.folder / "several.py"
    path.write_text(SEVERAL % sys.executable)
    path.chmod(0o755)
    command = words.replace("PYTHON", sys.executable).replace("HERE", str(programs.folder)).split()
    first = programs.start("", command=command, opts=("-n", "2"), env={"PYTHONPATH": ""})
    assert first.ends() == f"(1, {['a'] if words.endswith('a') else []})"


def test_several_join(programs):
    """dmirun -n 2 -i: both of them join a program that runs."""
    first = programs.start(HELLO)
    first.expect("^hello from 0")
    others = programs.start(HELLO, join=first, opts=("-n", "2"))
    for num in 1, 2:
        first.expect(f"^hello from {num} ")
    others.interrupt()
    others.ends()
    first.interrupt()
    first.ends()


def test_exception_in_main(programs):
    """It is told with host and traceback, and ends the program with status 1."""
    first = programs.start("""
        import dmi
        def main():
            next(dmi.notices()).welcome()
            raise ValueError("no good")
        dmi.run(main)
        """, wait=False)
    first.ends(1)
    log = first.log()
    assert re.search(r"dmi: exception in main of process 0 on \S+:", log)
    assert "prog.py" in log and "ValueError: no good" in log
    assert "_program.py" not in log  # the traceback is that of the script


def test_exception_of_thread_in_main(programs):
    """When main does not catch it, the traceback of the thread is printed once, and no lines of the package."""
    first = programs.start("""
        import dmi
        def bad(): raise ValueError("no good")
        def main():
            next(dmi.notices()).welcome()
            try: dmi.Lock()
            except AttributeError as error: print(error)
            dmi.create(0, bad).join()
        dmi.run(main)
        """, wait=False)
    assert first.ends(1) == "module 'dmi' has no attribute 'Lock'; of threads in several processes it is dmi.Mutex"
    log = first.log()
    assert len(re.findall(r"in bad$", log, re.M)) == 1 and "_program.py" not in log
    assert re.search(r"ThreadError: thread function bad has failed in process 0 on \S+, which has printed the traceback: ValueError: no good$", log, re.M)


def test_exit_status(programs):
    """sys.exit in main is the status of the program, of all processes."""
    text = """
        import sys, dmi
        def main():
            for num, notice in enumerate(dmi.notices()):
                notice.welcome()
                if num == 1:
                    sys.exit(7)
        dmi.run(main)
        """
    first = programs.start(text)
    second = programs.start(text, join=first)
    first.ends(7)
    second.ends(7)


def test_exit_in_thread(programs):
    """sys.exit in a thread fails the thread, unless its status is 0; the program goes on."""
    first = programs.start("""
        import sys, dmi
        def ends(status): sys.exit(status)
        def main():
            next(dmi.notices()).welcome()
            print(dmi.create(0, ends, 0).join(), dmi.create(0, ends, None).join())
            try: print(dmi.create(0, ends, 3).join())
            except dmi.ThreadError as error: print(error.what, error.report.splitlines()[-1])
        dmi.run(main)
        """, wait=False)
    assert first.ends() == "None None\nthread function ends SystemExit: 3"
    assert "dmi: sys.exit in thread function ends, which ends this thread only" in first.log()


def test_exception_in_thread(programs):
    """It is told where it happens, and join raises it, with process, host and traceback; the program goes on."""
    text = """
        import pickle, dmi
        def bad(what):
            return {}[what]
        def main():
            notices = dmi.notices()
            next(notices).welcome()
            other = next(notices)
            other.welcome()
            try:
                dmi.create(other, bad, "key").join()
            except dmi.ThreadError as error:
                print("got", error.what, "KeyError: 'key'" in error.report, "prog.py" in error.report, bool(error.host), error.process, pickle.loads(pickle.dumps(error)).args == error.args)
        dmi.run(main)
        """
    first = programs.start(text)
    second = programs.start(text, join=first)
    first.expect(r"^got thread function bad True True True 1 True$")
    second.expect_err(r"^dmi: exception in thread function bad of process 1 on \S+:$")
    second.expect_err(r"^KeyError: 'key'$")
    first.ends()
    second.ends()


def test_threads(programs):
    """Many threads of both processes at once; results of any kind; suspend and wake; wrong ones."""
    text = """
        import dmi
        class Own:
            def __init__(self, n): self.n = n
        def double(own): return Own(2 * own.n)
        def sleeper(counter):
            dmi.suspend()
            counter.add(1)
        def main():
            notices = dmi.notices()
            next(notices).welcome(); other = next(notices); other.welcome()
            threads = [dmi.create(i % 2, double, Own(i)) for i in range(100)]
            assert [t.join().n for t in threads] == [2 * i for i in range(100)]
            counter = dmi.Counter()
            threads = [dmi.create(i % 2, sleeper, counter) for i in range(10)]
            for t in threads: t.wake()
            for t in threads: t.join()
            print(counter.value, [n.id for n in dmi.nodes()], dmi.peek())
            for wrong in (lambda: dmi.create(0, lambda: 1), lambda: dmi.create(0, 5), lambda: dmi.create(77, double),
                          lambda: threads[0].join(), dmi.suspend):
                try: wrong()
                except (dmi.Error, TypeError) as error: print(type(error).__name__, str(error)[:40])
        dmi.run(main)
        """
    first = programs.start(text)
    programs.start(text, join=first)
    lines = first.ends().splitlines()
    assert lines[0] == "10 [0, 1] None"
    assert [line.split()[0] for line in lines[1:]] == ["TypeError", "TypeError", "Error", "Error", "Error"]


def test_output_is_kept(programs):
    """What was printed before the process is cut off is there."""
    text = """
        import dmi, threading
        def main():
            for notice in dmi.notices():
                notice.welcome()
                if notice.id == 1:
                    print("kept")
                    threading.Event().wait()
        dmi.run(main)
        """
    first = programs.start(text)
    second = programs.start(text, join=first)
    first.expect("^kept$")
    second.kill()
    second.popen.wait()
    assert first.ends(1) == "kept"


IDENTITY = """
    import os, dmi
    if "OTHER" in os.environ:
        dmi._program._python_version = lambda: os.environ["OTHER"]
    def main():
        next(dmi.notices()).welcome()
        input()
    dmi.run(main)
    """


def test_other_python(programs):
    """A process with another version of Python is refused, and both versions are named."""
    first = programs.start(IDENTITY)
    other = programs.start(IDENTITY, join=first, env={"OTHER": "CPython 3.99.1"}, wait=False)
    other.ends(1)
    log = other.log()
    assert re.search(r"'prog\.py \w{6}, Python 3\.99\.1, dmi [\d.]+'", log)
    assert re.search(r"'prog\.py \w{6}, Python 3\.1\d\.\d+, dmi [\d.]+'", log)
    assert "; what differs first: 'Python 3.99.1' here, 'Python 3." in log
    first.press()
    first.ends()


def test_other_module(programs):
    """A process whose script is the same, but not a module beside it, is refused; one with the same module joins."""
    text = """
        import json, helper, dmi
        def main():
            next(dmi.notices()).welcome()
            print(helper.NUMBER, flush=True)
            next(dmi.notices()).welcome()
            input()
        dmi.run(main)
        """
    programs.script("NUMBER = 1\n", "helper.py")
    first = programs.start(text)
    first.expect("^1$")
    programs.script("NUMBER = 2\n", "helper.py")
    other = programs.start(text, join=first, wait=False)
    other.ends(1)
    assert re.search(r"'prog\.py (\w{6}), helper\.py \w{6}, Python .*'prog\.py \1, helper\.py \w{6}, Python", other.log())
    assert re.search(r"; what differs first: 'helper\.py (\w{6})' here, 'helper\.py (?!\1)\w{6}' there: all processes must run the same", other.log())
    programs.script("NUMBER = 1\n", "helper.py")
    third = programs.start(text, join=first)
    third.expect_err("=== opened ===")
    first.press()
    third.ends()
    first.ends()


def test_other_script(programs):
    """A process with another script is refused."""
    first = programs.start(IDENTITY)
    path = programs.script(IDENTITY.replace("input()", "pass"), "other.py")
    other = programs.start(path, join=first, wait=False)
    other.ends(1)
    assert re.search(r"'other\.py \w{6}, Python", other.log()) and re.search(r"'prog\.py \w{6}, Python", other.log())
    first.press()
    first.ends()


def test_many_modules(programs):
    """If there are too many modules to name each, their number and hash are told."""
    names = [f"module_{n}" for n in range(9)]
    text = f"""
        import {', '.join(names)}, dmi
        def main():
            next(dmi.notices()).welcome()
            input()
        dmi.run(main)
        """
    for name in names:
        programs.script("\n", f"{name}.py")
    first = programs.start(text)
    programs.script("# another\n", "module_5.py")
    other = programs.start(text, join=first, wait=False)
    other.ends(1)
    assert re.search(r"; what differs first: '9 modules (\w{6})' here, '9 modules (?!\1)\w{6}' there: ", other.log())
    first.press()
    first.ends()


PLACES = """
    import sys
    import dmi

    def waits(mutex):
        with mutex:                          # takes
            dmi.suspend()                    # waits

    def main():
        next(dmi.notices()).welcome()
        array = dmi.array("d", 10)           # made
        mutex = dmi.Mutex()
        thread = dmi.create(0, waits, mutex)
        found = None
        while not found or not any(t.call == "DMI_suspend" for t in found.members[0].threads if "call" in t):
            found = dmi.status("@" + sys.argv[1], threads=True)
        print("thread", *[t.place for t in found.members[0].threads if "call" in t and t.call == "DMI_suspend"])
        print("lock", *[f"{lock.call} {lock.place}" for lock in found.members[0].locks])
        print("mapping", *[f"{m.call} {m.place}" for m in found.mappings if "call" in m])
        thread.wake()
        thread.join()
        try: dmi.read(array.address + 1000000, 8)    # wrong
        except dmi.Error as error: print(error)

    dmi.run(main)
    """


def test_places(programs):
    """Who looks at the program sees lines of the script: of calls, locks, mappings, and in the lines of --on-error."""
    first = programs.start(PLACES, str(programs.folder / "contact1"), opts=["--on-error", "print"])
    out = first.ends()
    lines = (programs.folder / "prog.py").read_text().splitlines()
    at = {line.split("# ")[1]: number for number, line in enumerate(lines, 1) if "  # " in line}
    assert re.search(rf"^thread prog\.py:{at['waits']} \(waits\)$", out, re.M)
    assert re.search(rf"^lock DMI_mutex_lock prog\.py:{at['takes']} \(waits\)$", out, re.M)
    assert re.search(rf"^mapping (?:.* )?DMI_mmap prog\.py:{at['made']} \(main\)", out, re.M)
    assert re.search(rf"dmi: .*prog\.py:{at['wrong']} \(main\): DMI_read\(0x\w+, 8 bytes\) failed with DMI_EADDR: it is \d+ bytes beyond", first.log())


def test_reasons(programs):
    """An exception has the reason that the library knows, as lines of DMI_ON_ERROR do, and nothing is printed."""
    first = programs.start("""
        import dmi
        def tries(function):
            try: function()
            except dmi.Error as error: print(error.name, "|", error)
        def main():
            tries(lambda: dmi.create(7, main))
            next(dmi.notices()).welcome()
            a = dmi.array("d", 10, page_size=80)
            tries(lambda: dmi.read(a.address + 72, 16))
            tries(lambda: dmi.read(a.address + 1000000, 8))
            tries(lambda: dmi.read(5, 8))
            tries(lambda: dmi.mmap(0, 1))
            tries(lambda: dmi.fetch_add(a.address + 4, 1))
            tries(dmi.suspend)
        dmi.run(main)
        """)
    out = first.ends().splitlines()
    assert out[0] == "DMI_EMEMBER | DMI_EMEMBER: no process has that id now"
    assert re.fullmatch(r"DMI_ERANGE \| DMI_ERANGE: 8 of the 16 bytes are beyond the end of the mapping at 0x\w+ \(1 page of 80 bytes\)", out[1])
    assert re.fullmatch(r"DMI_EADDR \| DMI_EADDR: it is \d+ bytes beyond the end of the mapping at .*, the nearest one that this process knows", out[2])
    assert "is it a C pointer, or a variable that was never set?" in out[3]
    assert out[4] == "DMI_ESIZE | DMI_ESIZE: the page size is not positive: 0"
    assert out[-1] == "DMI_ETHREAD | DMI_ETHREAD: the calling thread was not made by DMI_create"
    assert "failed with" not in first.log()


def test_forked(programs):
    """A child made by fork gets a clear error, cannot return into the library, and does no harm."""
    out = programs.run("""
        import os, sys, multiprocessing, dmi
        def child():
            try: dmi.nodes()
            except RuntimeError as error: print("child:", error)
        def returns():
            if os.fork() == 0:
                return
            print("thread:", os.waitstatus_to_exitcode(os.wait()[1]))
        def main():
            next(dmi.notices()).welcome()
            a = dmi.array("d", 10)
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start(); process.join()
            print("multiprocessing:", process.exitcode)
            dmi.create(0, returns).join()
            if os.fork() == 0:
                try: a[0]
                except RuntimeError as error: print("child:", error)
                return
            print("main:", os.waitstatus_to_exitcode(os.wait()[1]), a[0])
        dmi.run(main)
        """)
    lines = out.splitlines()
    assert sum(line.startswith("child: this process was made by fork") for line in lines) == 2
    assert "multiprocessing: 0" in lines and "thread: 1" in lines and lines[-1] == "main: 1 0.0"


def test_outside(programs):
    """Before and behind dmi.run calls say that there is no program."""
    out = programs.run("""
        import dmi
        def say():
            try: dmi.nodes()
            except dmi.InactiveError as error: print(error)
        say()
        def main(): next(dmi.notices()).welcome()
        try: dmi.run(main)
        except SystemExit as end: print("status", end.code)
        say()
        """)
    assert len(re.findall("DMI_EINACTIVE.*\ndmi.run", out)) == 2 and "status 0" in out


def test_exit_ends_notices(programs):
    """dmi.exit ends notices() in order, and stopping() is true."""
    out = programs.run("""
        import dmi
        def stopper():
            dmi.exit(0)
        def main():
            for notice in dmi.notices():
                notice.welcome()
                dmi.create(0, stopper).detach()
            print("over", dmi.stopping())
        dmi.run(main)
        """)
    assert out == "over True"


def test_recover(programs):
    """--survive: main is lost with its process, recover goes on in another one; a lost one is told of."""
    text = """
        import sys, dmi
        def main():
            for notice in dmi.notices():
                if notice.state == "open":
                    notice.welcome()
                    if notice.id == 1:
                        dmi.create(1, own_counter).join()
                        print("ready")
        def own_counter():
            # It is added to as soon as process 1 has its first lease; without one it cannot go on alone.
            counter = dmi.Counter()
            dmi.name("counter", counter.address)
            counter.add(1)
        def recover(lost):
            print("recover", lost, [node.id for node in dmi.nodes()], dmi.named("counter") != 0)
            for notice in dmi.notices():
                print(notice.state, notice.id)
                if notice.state == "lost":
                    return
        dmi.run(main, recover=recover)
        """
    first = programs.start(text, opts=["--survive", "--dead-after", "20"])
    second = programs.start(text, join=first)
    first.expect("^ready$")
    first.kill()
    second.expect(r"^recover 0 \[1\] True$")
    second.expect("^lost 0$")
    second.ends()


def test_status(programs):
    """dmi.status: a running program as objects, from outside and inside; nobody there."""
    text = """
        import os, sys, dmi
        def main():
            next(dmi.notices()).welcome()
            a = dmi.array("d", 1000)
            a[0] = 1
            found = dmi.status("@" + sys.argv[1], threads=True)
            print(found.as_dict.keys())
            print(type(found).__name__, len(repr(found)) < 200, repr(found))
            own = found.mappings[0].of["1"]
            print("owned", own.owned, own["owned"], list(own) == sorted(own.__dict__))
            try: dmi.status("localhost", 1)
            except ConnectionError as error: print("nobody:", error)
        dmi.run(main)
        """
    first = programs.start(text, programs.folder / "contact1", wait=False)
    out = first.ends()
    assert "Status True dmi.Status(" in out and "nobody:" in out
    assert "owned 1 1 True" in out


@pytest.mark.parametrize("command", ["python3", "python3 nothing.py"])
def test_wrong_start(programs, command):
    """dmirun python3 without a script; with one that is not there."""
    import os
    import subprocess
    import sys
    from conftest import BUILD
    words = [sys.executable] + command.split()[1:]
    done = subprocess.run([os.path.join(BUILD, "bin/dmirun"), "-l", "0", *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=programs.environment({}), cwd=programs.folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
