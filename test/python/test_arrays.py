"""Arrays in global memory: types, numpy, views without a copy, what does not fit."""
import sys

import pytest

numpy = pytest.importorskip("numpy")

ONE = "import sys, dmi, numpy as np\n{}\ndef main():\n    next(dmi.notices()).welcome()\n{}\ndmi.run(main)\n"


def one(body, before=""):
    """A script of one process with this body of main."""
    import textwrap
    return ONE.format(textwrap.dedent(before), textwrap.indent(textwrap.dedent(body).strip("\n"), "    "))


def test_numbers(programs):
    """Elements of all types of numbers, at both ends, by index and by range, across pages."""
    out = programs.run(one("""
        for code, values in dict(b=(-128, 127), B=(0, 255), h=(-2**15, 2**15 - 1), H=(0, 2**16 - 1), i=(-2**31, 2**31 - 1),
                                 I=(0, 2**32 - 1), q=(-2**63, 2**63 - 1), Q=(0, 2**64 - 1), d=(1e300, -0.1), f=(0.5, -2.0),
                                 l=(-2**63, 5), L=(1, 2**63)).items():
            a = dmi.array(code, 100, dmi.array(code, 1).itemsize * 3)
            a[0], a[-1] = values
            assert (a[0], a[99], a[1]) == (*values, 0), (code, a[0], a[99])
            a[10:20] = range(10) if code in "bBhHiIqQlL" else np.arange(10) / 2
            assert list(a[10:20]) == list(np.arange(10) / (1 if code in "bBhHiIqQlL" else 2)), code
            a[50:60] = 7
            assert list(a[49:61]) == [0] + [7] * 10 + [0] and len(a) == 100 and len(list(a)) == 100
            assert list(a[::33]) == [a[0], a[33], a[66], a[99]]
            a.free()
        for index in 100, -101:
            try: a[index]
            except IndexError as error: print(error)
        print("good")
        """))
    assert out.splitlines()[-1] == "good"


def test_numpy_types(programs):
    """Records, rows, complex numbers, strings of bytes: numpy's types."""
    out = programs.run(one("""
        rows = dmi.array(("f8", 3), 50, 240)
        rows[7] = (1, 2, 3)
        rows[8:10] = np.ones((2, 3))
        assert rows[6:10].tolist() == [[0, 0, 0], [1, 2, 3], [1, 1, 1], [1, 1, 1]] and rows[7].tolist() == [1, 2, 3]
        records = dmi.array(np.dtype([("id", "i4"), ("x", "f8")]), 20)
        records[3] = (5, 2.5)
        assert records[3]["id"] == 5 and records[2:4]["x"].tolist() == [0, 2.5]
        complexes = dmi.array("c16", 4)
        complexes[1] = 1 + 2j
        assert complexes[1] == 1 + 2j
        flags = dmi.array("?", 4)
        flags[2] = True
        assert flags[2] and not flags[1]
        other = dmi.array("<iq", 10)
        other[4] = (1, 2)
        assert other[4] == (1, 2) and other[3:5] == [(0, 0), (1, 2)] and other.itemsize == 12
        other[5:7] = [(3, 4), (5, 6)]
        assert other[5:7] == [(3, 4), (5, 6)]
        big = dmi.array(">i4", 3)
        big[0] = 1
        assert big[0] == 1 and dmi.read(big.address, 4) == bytes([0, 0, 0, 1])
        print("good")
        """))
    assert out == "good"


def test_view(programs):
    """A view of a page of 1 MiB that is here is no copy: two have the same address.  It does not change."""
    out = programs.run(one("""
        n = 1 << 20
        a = dmi.array("u1", 2 * n, n)
        a[:n] = np.arange(n) % 251
        v, w = a.view(0, n), a.view(0, n)
        assert v.ctypes.data == w.ctypes.data and a.view(5, 9).ctypes.data == v.ctypes.data + 5
        assert not v.flags.writeable and not v.flags.owndata and v.base is not None
        assert np.shares_memory(v, w)
        used = dmi.pool()["used"]
        a[:n] = 3
        assert v[250] == 250 and w[251] == 0 and a[250] == 3           # a view is of one moment
        assert dmi.pool()["used"] >= used + n                           # and its page counts as long
        new = a.view(0, n)
        assert new.ctypes.data != v.ctypes.data and new[250] == 3
        try: v[0] = 1
        except ValueError as error: print(error)
        across = a.view(n - 2, n + 2)                                   # of two pages: a copy
        assert across.tolist() == [3, 3, 0, 0] and not across.flags.writeable
        buffer = memoryview(a)[0:4]
        assert buffer.readonly and buffer.tolist() == [3, 3, 3, 3]
        b = dmi.array("d", 1000, 8000)
        b[:] = np.arange(1000)
        assert np.asarray(b).ctypes.data == b.view().ctypes.data and np.asarray(b).sum() == 499500
        assert np.frombuffer(dmi.hold(b.address, 8000)).ctypes.data == b.view().ctypes.data
        c = b.view()
        b.free()
        assert c[999] == 999
        try: b[0]
        except dmi.AddressError as error: print(error)
        for use in (lambda: b[3:5], lambda: b.__setitem__(0, 1), lambda: b.view(), lambda: memoryview(b), lambda: b.free(), lambda: b.address,
                    lambda: b.place(1), lambda: dmi.create(0, print, b), lambda: b.swap(0, 1.0)):
            try: use(); print("used")
            except dmi.AddressError as error: assert "was freed at prog.py:" in str(error), error
        print(b, len(b), b == b, b == a, a == b, b in {b})
        try: b.length_
        except AttributeError as error: print(error)
        del v, w, new
        assert dmi.pool()["used"] < used + n
        global late
        late = c                                                        # behind the end of the program
        import atexit
        atexit.register(lambda: print("late", late[998]))
        """))
    lines = (programs.folder / "prog.py").read_text().splitlines()
    freed = f"freed at prog.py:{lines.index('    b.free()') + 1} (main)"
    assert out.splitlines() == [
        "assignment destination is read-only", f"DMI_EADDR: this array of 1000 float64 was {freed}",
        f"<dmi.Array of 1000 float64, {freed}> 1000 True False False True", "'Array' object has no attribute 'length_'", "late 998.0"]


def test_edit_and_atomics(programs):
    """edit writes back, and does not after an exception; read-modify-writes."""
    out = programs.run(one("""
        a = dmi.array("q", 100, 80)
        with a.edit(5, 25) as part:
            part += np.arange(20)
        try:
            with a.edit() as part:
                part[:] = 9
                raise KeyError
        except KeyError: pass
        assert a[4:26].tolist() == [0] + list(range(20)) + [0]
        assert a.fetch_add(0, 5) == 0 and a.fetch_add(0, -7) == 5 and a[0] == -2
        u = dmi.array("Q", 1)
        assert u.fetch_add(0, -1) == 0 and u.fetch_add(0, 1) == 2**64 - 1
        for type in "d", "i", "2i", ">q", np.dtype(">i8"):    # their bits would become others
            try: print(type, dmi.array(type, 4).fetch_add(0, 1))
            except TypeError: pass
        assert a.swap(1, 8) == 0 and a[1] == 8
        assert not a.compare_swap(1, 7, 5) and a.compare_swap(1, 8, 5) and a[1] == 5
        assert a.watch(1, 6) == 5
        address = dmi.mmap(100, 3)
        dmi.write(address + 90, b"across the border", dmi.PUT_WRITE)
        assert dmi.read(address + 90, 17, dmi.GET_READ) == b"across the border"
        buffer = bytearray(6)
        dmi.read_into(address + 90, buffer)
        assert buffer == b"across" and dmi.read(address, 0) == b""
        assert dmi.swap(address, b"ab") == bytes(2) and dmi.compare_swap(address, b"ab", b"cd")
        dmi.name("it", a); assert dmi.named("it") == a.address and dmi.named("other") == 0
        dmi.munmap(address)
        print("good")
        """))
    assert out == "good"


TWO = """
    import dmi, numpy as np
    def there(a, b):
        view = a.view()                       # fetched
        assert view.tolist() == list(range(1000)) and a.view().ctypes.data == view.ctypes.data
        a[0] = 77                             # moved here
        b[:] = a[:]
        return view[0], a
    def main():
        notices = dmi.notices()
        next(notices).welcome(); other = next(notices); other.welcome()
        a, b = dmi.array("i", 1000, 4000), dmi.array("i", 1000, 400, write=dmi.PUT_WRITE, read=dmi.GET_READ)
        a[:] = range(1000)
        view = a.view()
        first, same = dmi.create(other, there, a, b).join()
        assert first == 0 and same == a and same is not a
        assert view[0] == 0 and a[0] == 77 and b[0] == 77 and b[999] == 999
        print("good", repr(b).split(" at ")[0])
    dmi.run(main)
    """


def test_other_process(programs):
    """Arrays are given to threads of other processes; views of pages that were elsewhere, and go away."""
    first = programs.start(TWO)
    programs.start(TWO, join=first)
    assert first.ends() == "good <dmi.Array of 1000 int32"


def test_no_fit(programs):
    """Types that do not fit pages, no types, lengths and sizes that cannot be: each with its message."""
    out = programs.run(one("""
        for make in (lambda: dmi.array(("f8", 3), 10, 4096), lambda: dmi.array("d", 10, 4), lambda: dmi.array("d", 10, 0),
                     lambda: dmi.array("d", 0), lambda: dmi.array("d", 1 << 60), lambda: dmi.array("nonsense", 1),
                     lambda: dmi.array(object, 1), lambda: dmi.array("O", 1), lambda: dmi.array("V0", 1)):
            try: make(); print("made")
            except dmi.InvalidError as error: print(error)
        a = dmi.array("d", 10)
        for wrong in (lambda: a.__setitem__(slice(0, 3), [1, 2]), lambda: a.__setitem__(slice(0, 9, 2), 1), lambda: dmi.array("i", 2).fetch_add(0, 1),
                      lambda: a.__setitem__(0, "x"), lambda: dmi.read(a.address, 10**6), lambda: dmi.read(a.address, -1),
                      lambda: dmi.read("x", 1), lambda: dmi.write(a.address, "x"), lambda: dmi.hold(a.address, 0), lambda: dmi.read(a.address, 1, 99)):
            try: wrong(); print("done")
            except (ValueError, TypeError, dmi.Error) as error: print(type(error).__name__)
        """))
    lines = out.splitlines()
    assert "do not fit pages of 4096 bytes" in lines[0] and "such as 4104 bytes" in lines[0]
    assert "made" not in lines and "done" not in lines and "2^62" in lines[4] and len(lines) == 19, lines


def test_larger_than_memory(programs):
    """An array that is larger than the memory: pages take some when they are written, and then it is told."""
    out = programs.run(one("""
        a = dmi.array("u1", 1 << 40, 1 << 20)
        try:
            for start, stop in a.pages():
                a[start:stop] = 1
        except dmi.NoMemoryError as error:
            print(8 << 20 <= start <= 16 << 20, error)
        print(a[0], a[start], a[(1 << 40) - 1])
        """), opts=["-s", "16M"])
    lines = out.splitlines()
    assert lines[0].startswith("True DMI_ENOMEM") and "dmirun -s" in lines[0] and lines[1] == "1 0 0"


def test_without_numpy(programs):
    """Without numpy: numbers and records of struct, memoryviews."""
    out = programs.run("""
        import sys
        sys.modules["numpy"] = None
        import dmi
        def main():
            next(dmi.notices()).welcome()
            a = dmi.array("d", 100, 80)
            a[3] = 2.5
            a[5:7] = [1, 2]
            a[8:10] = 4
            assert list(a[3:10]) == [2.5, 0, 1, 2, 0, 4, 4] and a[3] == 2.5
            view = a.view(0, 10)
            assert view.readonly and view.format == "d" and view[3] == 2.5
            a[3] = 0
            assert view[3] == 2.5
            r = dmi.array("<iq", 4)
            r[1] = (1, 2)
            assert r[0:2] == [(0, 0), (1, 2)] and r[1] == (1, 2)
            try: dmi.array("f8", 4)
            except dmi.InvalidError as error: print(error)
        dmi.run(main)
        """)
    assert out.startswith("'f8' is no type of elements") and "this Python has no numpy" in out


def test_other_threads_run_meanwhile(programs):
    """A call that waits lets other threads of Python run."""
    out = programs.run(one("""
        import threading
        a = dmi.array("q", 1)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(a.watch(0, 0)))
        thread.start()
        mutex = dmi.Mutex()
        mutex.lock()
        other = threading.Thread(target=lambda: (mutex.lock(), seen.append("locked"), mutex.unlock()))
        other.start()
        a[0] = 5
        thread.join()
        mutex.unlock()
        other.join()
        print(seen)
        """))
    assert out == "[5, 'locked']"
