"""Mutexes, conditions, barriers, counters, by threads of several processes."""
from conftest import SMALL

LOCKS = """
    import sys, dmi
    N = int(sys.argv[1])
    def count(mutex, a):
        for _ in range(N):
            with mutex:
                a[0] = a[0] + 1
    def consume(queue, condition, got):
        while True:
            with condition:
                condition.wait_for(lambda: queue[0])
                value = queue[0]
                queue[0] = 0
                condition.notify_all()
            if value < 0: return
            got.add(value)
    def rounds(barrier, num, rank):
        total = 0
        for i in range(N):
            total += barrier.reduce(rank + i, num)
            barrier.wait(num)
            assert barrier.reduce(float(rank), num, "max") == num - 1
            with barrier.of(num): pass
        return total
    def main():
        notices = dmi.notices()
        next(notices).welcome(); next(notices).welcome()
        mutex, a = dmi.Mutex(), dmi.array("q", 4)
        threads = [dmi.create(i % 2, count, mutex, a) for i in range(4)]
        for t in threads: t.join()
        print(a[0] == 4 * N, mutex.trylock(), mutex.trylock())
        mutex.unlock()
        queue, condition, got = dmi.array("q", 1), dmi.Condition(), dmi.Counter()
        threads = [dmi.create(i % 2, consume, queue, condition, got) for i in range(4)]
        for value in list(range(1, N)) + [-1] * 4:
            with condition:
                condition.wait_for(lambda: queue[0] == 0)
                queue[0] = value
                condition.notify_all()
        for t in threads: t.join()
        print(got.value == N * (N - 1) // 2)
        barrier = dmi.Barrier()
        threads = [dmi.create(i % 2, rounds, barrier, 4, i) for i in range(4)]
        print({t.join() for t in threads} == {sum(6 + 4 * i for i in range(N))})
        import array
        both = array.array("d", [1.5, 2.5])
        print(barrier.reduce(both, 1).tolist(), barrier.reduce(6, 1, "xor"))
        for wrong in (mutex.unlock, lambda: barrier.wait(0), lambda: barrier.reduce(1, 1, "no"), lambda: barrier.reduce([1], 1),
                      condition.wait, lambda: barrier.reduce(array.array("b", [1]), 1)):
            try: wrong(); print("done")
            except (dmi.Error, TypeError) as error: print(getattr(error, "name", "TypeError"))
        again = dmi.Mutex(a.place(2))
        with again:
            pass
        try:
            with again: again.destroy()
        except dmi.Error as error: print(error.name)
        for what in again, mutex, condition, barrier: what.destroy()
    dmi.run(main)
    """


def test_locks(programs):
    """Counts that mutexes, conditions and barriers guard are exact; wrong use is told."""
    first = programs.start(LOCKS, 20 if SMALL else 100, wait=False)
    first.expect_err("=== opened ===")
    second = programs.start(LOCKS, 20 if SMALL else 100, join=first)
    out = first.ends().splitlines()
    assert out == ["True True False", "True", "True", "[1.5, 2.5] 6", "DMI_EHOLDER", "DMI_EINVAL", "DMI_EINVAL",
                   "TypeError", "DMI_EHOLDER", "DMI_EINVAL", "DMI_EBUSY"]
    second.ends()


def test_owner_dead(programs):
    """--survive: a process is killed that holds a mutex; `with` raises, lock() mends."""
    text = """
        import dmi
        def keeps(mutex):
            mutex.lock()
            print("kill")
            dmi.suspend()
        def main():
            notices = dmi.notices()
            next(notices).welcome(); other = next(notices); other.welcome()
            mutex = dmi.Mutex()
            dmi.create(other, keeps, mutex)
            print(next(notices).state)
            try:
                with mutex: print("no")
            except dmi.OwnerDeadError as error: print(error.name)
            try: mutex.lock()
            except dmi.OwnerDeadError: mutex.consistent()
            mutex.unlock()
            with mutex: print("good")
        dmi.run(main)
        """
    first = programs.start(text, opts=["--survive", "--dead-after", "20"])
    second = programs.start(text, join=first)
    second.expect("^kill$")
    second.kill()
    assert first.ends().splitlines() == ["lost", "DMI_EOWNERDEAD", "good"]


def test_end(programs):
    """dmi.exit ends waits with EndError."""
    out = programs.run("""
        import dmi
        def waits(barrier):
            try: barrier.wait(2)
            except dmi.EndError as error: return error.name
        def main():
            next(dmi.notices()).welcome()
            thread = dmi.create(0, waits, dmi.Barrier())
            dmi.exit(0)
            print(thread.join())
        dmi.run(main)
        """)
    assert out == "DMI_EEND"
