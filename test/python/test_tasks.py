"""Farms of tasks, and remote functions: results of any size, failures, processes that come, go and are killed."""
import re

FARM = """
    import sys, time, dmi
    import numpy as np
    @dmi.task
    def square(i, more=0):
        return i * i + more
    @dmi.task(result_bytes=64)
    def block(i):
        return np.full(i * 1000, i)
    @dmi.task
    def bad(i):
        if i % 10 == 3: raise ValueError(f"no {i}")
        return i
    def main():
        results = square.farm(1000, 5, processes=int(sys.argv[1]), event=dmi.print_event)
        print(len(results), sum(results), results.failed, results.seconds >= 0, square(7))
        blocks = block.farm(30, threads=2)
        print(sum(int(b.sum()) for b in blocks) == sum(i * i * 1000 for i in range(30)))
        del blocks
        results = bad.farm(20, retries=1)
        print(results.failed, results.failures(), results[4])
        try: results[13]
        except dmi.TaskError as error: print(error.what, "ValueError: no 13" in error.report, f"failed in process {int(error.process)} on {error.host}:" in str(error))
        results.free()
        for use in results.failures, lambda: results[4]:
            try: use()
            except dmi.AddressError as error: print(error)
        try: square.farm(-1)
        except dmi.InvalidError as error: print(error.name)
        print(list(square.farm(0)))
    dmi.run(main)
    """


def test_farm(programs):
    """Results by two processes, long ones, tasks that fail."""
    first = programs.start(FARM, 2)
    second = programs.start(FARM, 2, join=first)
    out = [line for line in first.ends().splitlines() if not line.startswith("w")]
    lines = (programs.folder / "prog.py").read_text().splitlines()
    freed = f"DMI_EADDR: the results of bad were freed at prog.py:{lines.index('    results.free()') + 1} (main)"
    assert out == ["1000 332838500 0 True 49", "True", "2 [3, 13] 4", "task 13 of bad True True", freed, freed, "DMI_EINVAL", "[]"]
    second.ends()


# Tasks and calls from the tenth on wait for Enter, so that what happens meanwhile happens in the middle of them.
GATE = """
    import threading, dmi
    def gate():
        flag = dmi.array("q", 1, write=dmi.PUT_WRITE, read=dmi.GET_READ)
        flag[0] = 0
        def opens():
            input()
            flag[0] = 1
        threading.Thread(target=opens, daemon=True).start()
        return flag
    def passes(i, flag):
        print(f"at {i}\\n", end="")   # as a whole, whatever other threads print
        if i >= 10 and flag[0] == 0:
            flag.watch(0, 0)
    """

FARM_CHANGES = GATE + """
    @dmi.task
    def step(i, flag):
        passes(i, flag)
        return i
    def main():
        results = step.farm(60, gate(), processes=3, event=dmi.print_event)
        print("sum", sum(results))
    dmi.run(main)
    """


def changes(programs, text):
    """A process leaves, one is killed, another one joins while work is in hand; what the first has printed."""
    first = programs.start(text, opts=["--survive", "--dead-after", "60"])
    second, third = (programs.start(text, join=first, wait=False) for _ in range(2))
    for process in second, third:
        process.expect("^at ")
    second.interrupt()
    second.expect_err("=== closed ===")
    third.kill()
    first.expect_err("is lost")
    fourth = programs.start(text, join=first, wait=False)
    first.press()
    out = first.ends()
    second.ends()
    fourth.popen.wait()  # it may have come too late
    return out


def test_farm_changes(programs):
    """A process leaves, another one joins, one is killed: each task counts once."""
    out = changes(programs, FARM_CHANGES)
    assert f"sum {sum(range(60))}" in out and re.search(r"lost \d!", out)


REMOTE = """
    import sys, dmi
    import numpy as np
    @dmi.remote
    def add(a, b=0): return a + b
    @dmi.remote
    def nothing(): pass
    @dmi.remote(result_bytes=lambda n: n * 8 + 300)
    def made(n): return np.arange(n)
    @dmi.remote
    def large(n): return np.arange(n)
    @dmi.remote
    def total(x): x += 0; return int(x.sum())
    @dmi.remote
    def bad(n): raise ValueError(f"no {n}")
    @dmi.remote
    def nested(n): return n if n == 0 else n + nested(n - 1).result()
    @dmi.remote
    def later(n): return add(n)
    @dmi.remote
    def all_of(*items, **named): return sum(items) + sum(named.values())
    @dmi.remote
    def where(): return dmi.rank()
    def in_thread(n):
        return add(n, 1).result()
    def main():
        with dmi.client(processes=2):
            x = add(1, 2)
            y = add(x, b=x)
            assert (y.result(), x.result(), y.result(), add.function(5, 6)) == (6, 3, 6, 11)
            assert nothing().result() is None and add("a", "b").result() == "ab"
            nothing().wait()
            unread = add(7)
            assert total(made(100000)).result() == total(large(100000)).result() == 4999950000
            assert made(10).result().tolist() == list(range(10)) and large(100000).result()[5] == 5
            assert all_of(*[add(i) for i in range(40)], k=add(1000)).result() == 780 + 1000
            assert [where.on(n).result() for n in (0, 1)] == [0, 1]
            assert nested(3).result() == 6
            assert sum(dmi.gather([add(i, i) for i in range(500)])) == 249500
            for failing in bad(7), add(bad(8), 1), add(1, "x"), later(1):
                try: failing.result()
                except dmi.RemoteError as error: print(error.what, error.report.splitlines()[-1], f"failed in process {int(error.process)} on {error.host}:" in str(error))
            try: add(lambda: 1)
            except TypeError as error: print("TypeError", "pickle" in str(error))
            chain = add(0, 1)
            for _ in range(100): chain = add(chain, 1)   # those in between are forgotten at once
            assert chain.result() == 101
        assert dmi.create(0, in_thread, 5).join() == 6
        try: unread.wait()
        except dmi.Error as error: print(error)
        used = dmi.pool()["used"]
        for _ in range(20): large(100000).result()
        dmi._remote._mine.client.close()
        print("grows" if dmi.pool()["used"] > used + 8000000 else "good")
    dmi.run(main)
    """


def test_remote(programs):
    """Calls with results as arguments, of any size, nested, in certain processes; failures with host and traceback."""
    first = programs.start(REMOTE)
    second = programs.start(REMOTE, join=first)
    out = first.ends().splitlines()
    assert out[0] == "remote function bad ValueError: no 7 True"
    assert out[1] == "remote function bad ValueError: no 8 True"
    assert re.match("remote function add TypeError: unsupported operand", out[2])
    assert re.match("remote function later .*: a Future may be an argument of a call, but cannot be .* returned", out[3])
    assert out[4:] == ["TypeError True", "the client of this call is closed, and its results are forgotten", "good"]
    assert "dmi: exception in remote function" in first.log() + second.log()
    second.ends()


REMOTE_CHANGES = GATE + """
    @dmi.remote
    def slow(i, flag):
        passes(i, flag)
        return i
    def main():
        with dmi.client(processes=3):
            flag = gate()
            print("sum", sum(dmi.gather([slow(slow(i, flag), flag) for i in range(60)])))
    dmi.run(main)
    """


def test_remote_changes(programs):
    """Processes leave and are killed while calls run: all results are right."""
    assert f"sum {sum(range(60))}" in changes(programs, REMOTE_CHANGES)


NOTICES = """
    import dmi
    @dmi.task
    def square(i): return i * i
    @dmi.remote
    def inc(n): return n + 1
    @dmi.remote
    def bad(): raise ValueError("no good")
    def calls(n): return inc(n).result()
    def refused(what):
        try: what()
        except dmi.Error as error: print(error.name, (str(error).partition("DMI_EBUSY: ")[2] or str(error).splitlines()[-1])[:60])
    def main():
        next(dmi.notices()).welcome()
        one = inc(1)
        refused(dmi.notices)
        refused(dmi.peek)
        refused(lambda: square.farm(2))
        print(one.result())
        failed = bad()
        refused(failed.result)
        inc(5)                               # nobody wants its result
        print(list(square.farm(3)))
        print(inc(one).result())             # its client is closed: its result is the argument
        refused(failed.result)               # it is told again
        with dmi.client():
            refused(dmi.notices)
        print("ready")
        for notice in dmi.notices():
            print(notice.state, notice.id)
            if notice.state == "open":
                notice.welcome()
                print(inc(notice.id).result(), dmi.create(notice, calls, 10).join())
            else:
                notice.goodbye()
                if notice.id == 0:
                    return
    dmi.run(main)
    """


def test_notices(programs):
    """Notices after remote calls: the client gives them up, or says why it does not; and Ctrl+C is not lost."""
    first = programs.start(NOTICES)
    first.expect("^ready$")
    second = programs.start(NOTICES, join=first)
    first.expect("^2 11$")
    second.interrupt()
    first.expect("^close 1$")
    second.ends()
    first.interrupt()
    out = first.ends().splitlines()
    busy = "DMI_EBUSY a client of remote functions handles the notices, as 1 of it"
    failed = ["DMI_EREMOTE ValueError: no good"]
    assert out == [*3 * [busy], "2", *failed, "[0, 1, 4]", "3", *failed,
                   "DMI_EBUSY a client of remote functions, which dmi.client has opened, h", "ready", "open 1", "2 11",
                   "close 1", "close 0"]


def test_not_at_top(programs):
    """Functions that other processes could not find are refused where they are decorated."""
    out = programs.run("""
        import dmi
        def inside():
            @dmi.remote
            def nested(): pass
        def main():
            mutex = dmi.Mutex()
            mutex.acquire(); print(mutex.trylock()); mutex.release()
            for make in inside, lambda: dmi.task(lambda i: i), lambda: dmi.remote(result_bytes=8)(lambda: 1):
                try: make(); print("made")
                except TypeError as error: print(str(error).partition(" cannot")[0])
        dmi.run(main)
        """)
    assert out.splitlines() == ["False", "inside.<locals>.nested", "main.<locals>.<lambda>.<locals>.<lambda>",
                                "main.<locals>.<lambda>.<locals>.<lambda>"]
