"""The examples give what those in C give, while processes join and leave; the chapter's listings do what it says."""
import os
import re
import subprocess
import zlib

import pytest

from conftest import BUILD, SMALL

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
EXAMPLES = os.path.join(TOP, "examples")
numpy = pytest.importorskip("numpy")


def in_c(programs, name, *args):
    """What the example in C prints, by one process."""
    path = os.path.join(BUILD, "examples", name)
    if not os.path.exists(path):
        pytest.skip(f"{name} is not built")
    return subprocess.run([os.path.join(BUILD, "bin/dmirun"), "-l", "0", path, *map(str, args)], check=True, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, env=programs.environment({}),
                          cwd=programs.folder).stdout


def comes_and_goes(programs, name, *args, line, pressed=False):
    """A program during which a second process joins and leaves, and a third one joins; what it has printed."""
    path = os.path.join(EXAMPLES, name)
    first = programs.start(path, *args)
    second, third = (programs.start(path, join=first) for _ in range(2))
    if pressed:
        first.press()
    if line:
        second.expect(line)
    second.interrupt()
    second.expect_err("=== (left|finalized) ===")
    out = first.ends()
    for process in second, third:
        process.ends()
    return out


def test_kmeans(programs):
    """The same clusters, to the last bit, as kmeans_dmi."""
    args = (20000, 4, 8, 20, 16, 3)
    wanted = in_c(programs, "kmeans_dmi", *args[:-1])
    got = comes_and_goes(programs, "kmeans.py", *args, line=None)
    assert re.sub(r"[\d.]+ s,", "", got) == re.sub(r"[\d.]+ s,", "", wanted).rstrip("\n")
    assert "checksum" in got


def pixels(path):
    """What is in a picture of bytes without filters: its head, palette, rows."""
    data, at, parts = path.read_bytes(), 8, {}
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        kind = data[at + 4:at + 8]
        parts[kind] = parts.get(kind, b"") + data[at + 8:at + 8 + size]
        at += size + 12
    return parts[b"IHDR"], parts[b"PLTE"], zlib.decompress(parts[b"IDAT"])


def test_mandel(programs):
    """The same picture as mandel_dmi: size, colours and each pixel."""
    args = (60, 40, 60, 2000)
    in_c(programs, "mandel_dmi", *args, 0)
    picture = programs.folder / "mandelbrot.png"
    wanted = pixels(picture)
    picture.unlink()
    out = comes_and_goes(programs, "mandel.py", *args, 1, line=None, pressed=True)
    assert "wrote mandelbrot.png" in out
    assert pixels(picture) == wanted


def test_lines():
    """Each has at most half of the lines of the example in C."""
    for python, c in ("mandel.py", "mandel_dmi.c"), ("kmeans.py", "kmeans_dmi.c"):
        count = [len(open(os.path.join(EXAMPLES, name), encoding="utf-8").readlines()) for name in (python, c)]
        assert 2 * count[0] <= count[1], (python, count)


def test_farm(programs):
    out = comes_and_goes(programs, "farm.py", 150 if SMALL else 400, 3, line=None)
    assert "2^p - 1 is prime for p = 2 3 5 7 13 17 19 31 61 89 107 127" in out and " 0 have failed" in out


def test_farm_of_several(programs):
    """dmirun -n 4 python3 farm.py, as the chapter says."""
    out = programs.start(os.path.join(EXAMPLES, "farm.py"), 100, opts=("-n", "4")).ends()
    assert "2^p - 1 is prime for p = 2 3 5 7 13 17 19 31 61 89" in out and " 0 have failed" in out


def listings():
    """The programs of the chapter, by name, with the lines that it shows."""
    with open(os.path.join(TOP, "docs/python.md"), encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"```python\n(# (\w+\.py)\n.*?)```\n+```console\n\$ dmirun python3 (\w+\.py)\n(.*?)```", text, re.S)
    assert len(found) == text.count("```python") >= 6
    assert all(name == run for _, name, run, _ in found)
    return [(name, code, shown.splitlines()) for code, name, _, shown in found]


@pytest.mark.parametrize("name, code, shown", listings(), ids=lambda value: value if isinstance(value, str) and "\n" not in value else "")
def test_chapter(programs, name, code, shown):
    """Each listing of docs/python.md prints what is shown."""
    path = programs.folder / name
    path.write_text(code)
    out = programs.start(str(path), wait=False).ends().splitlines()
    at = 0
    for line in shown:
        while at < len(out) and not out[at].startswith(line):
            at += 1
        assert at < len(out), f"{name} does not print {line!r}"
        at += 1


def test_documented():
    """Each public function and method has a docstring, and pydoc shows it."""
    import pydoc
    import dmi
    text = pydoc.plain(pydoc.render_doc(dmi))
    for name in dmi.__all__:
        assert re.search(rf"^ +(class )?{name}\b", text, re.M), name
    assert {"run", "array", "notices", "Mutex", "status", "GET_READ"} < set(dmi.__all__) and "make" not in dmi.__all__
    for name, what in vars(dmi).items():
        if name.startswith("_") or isinstance(what, (int, type(os))):
            continue
        assert what.__doc__, name
        if isinstance(what, type):
            assert all(value.__doc__ for key, value in vars(what).items() if callable(value) and key[0] != "_"), name
