"""What calls cost in Python: `name value unit min max` lines, as bench.h has them.

dmirun python3 bench_python_dmi.py          and one process that joins it

The process that joins measures; what is remote is in the first one, which waits meanwhile.
"""
import time

import dmi

BATCHES = 9
MIB = 1 << 20


@dmi.remote
def empty():
    return None


@dmi.remote
def add_one(number):
    return number + 1


def one():
    return 1


def figure(name, unit, values):
    values = sorted(values)
    return f"{name} {values[len(values) // 2]:.4g} {unit} {values[0]:.4g} {values[-1]:.4g}"


def timed(name, unit, scale, count, calls):
    """`calls(range(count))`, in batches: what each call takes, and a batch to warm up."""
    values = []
    for batch in range(BATCHES + 1):
        start = time.perf_counter()
        calls(range(count))
        values.append((time.perf_counter() - start) / count * scale)
    return figure(name, unit, values[1:])


def read_element(array):
    def calls(times):
        for _ in times:
            array[3]
    return calls


def write_element(array):
    def calls(times):
        for i in times:
            array[3] = i
    return calls


def each(call):
    def calls(times):
        for _ in times:
            call()
    return calls


def issued(function, *arguments):
    """Calls that are all issued, then waited for."""
    def calls(times):
        dmi.gather([function(*arguments) for _ in times])
    return calls


def chained(times):
    """Each needs the result of the one before."""
    value = 0
    for _ in times:
        value = add_one(value)
    value.result()


def views(block):
    """A view of a page of 1 MiB, and whether it is the page itself: two views have one address."""
    import numpy
    first, second = block.view(), numpy.asarray(block)
    same = first.__array_interface__["data"][0] == second.__array_interface__["data"][0]
    return [timed("view_1m", "us", 1e6, 2000, each(block.view)),
            timed("copy_1m", "us", 1e6, 100, each(lambda: block[:])),
            f"view_copies {0 if same else 1} n 0 0"]


def measure(remote, first):
    here = dmi.array("q", 512, page_size=4096)
    here[:] = 1
    lines = [timed("read_hit_8", "ns", 1e9, 100000, read_element(here)),
             timed("read_call_8", "ns", 1e9, 100000, each(lambda: dmi.read(here.address, 8))),
             timed("write_hit_8", "ns", 1e9, 100000, write_element(here)),
             timed("fetch_add_own", "ns", 1e9, 20000, each(lambda: here.fetch_add(5, 1))),
             timed("get_8", "us", 1e6, 1000, each(lambda: dmi.read(remote.address, 8, dmi.GET_READ)))]
    block = dmi.array("d", MIB // 8, page_size=MIB)
    block[:] = 1.0
    try:
        lines += views(block)
    except ImportError:
        pass
    lines += [timed("remote_empty", "us", 1e6, 4000, issued(empty)),
              timed("remote_empty_there", "us", 1e6, 4000, issued(empty.on, first)),
              timed("remote_chain", "us", 1e6, 1000, chained),
              timed("remote_one", "us", 1e6, 300, each(lambda: empty().result())),
              timed("remote_one_there", "us", 1e6, 300, each(lambda: empty.on(first).result())),
              timed("thread", "us", 1e6, 200, each(lambda: dmi.create(first, one).join()))]
    return lines


def main():
    nodes = []
    for notice in dmi.notices():
        notice.welcome()
        nodes.append(notice.id)
        if len(nodes) == 2:
            break
    remote = dmi.array("q", 512, page_size=4096)
    remote[:] = 1
    print("\n".join(dmi.create(nodes[1], measure, remote, nodes[0]).join()))


dmi.run(main)
