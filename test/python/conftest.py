"""Programs of several processes for tests in Python, started by dmirun; no test sleeps.

A test writes scripts into its directory and starts them:

    def test_hello(programs):
        first = programs.start(SCRIPT, "argument")
        second = programs.start(SCRIPT, join=first)
        first.expect("hello from 1")
        second.interrupt()
        second.ends(0)
        first.ends(0)

Every wait is for a line or an end, and has a deadline.  With DMI_TAP in the environment results are written to that
file as TAP, for test/run.
"""
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import textwrap

import pytest

BUILD = os.environ.get("DMI_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "../../build")
WAIT = 60 * float(os.environ.get("DMI_TEST_SLOW") or 1)
SMALL = os.environ.get("DMI_TEST_SCALE") == "small"


class Process:
    """A process of a program: what it prints on stdout and stderr, by lines, and its end."""

    def __init__(self, popen, name):
        self.popen, self.name, self.out, self.err = popen, name, [], []
        self.news = threading.Condition()
        self.readers = [threading.Thread(target=self._reads, args=pair, daemon=True)
                        for pair in ((popen.stdout, self.out), (popen.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def _reads(self, stream, lines):
        for line in stream:
            with self.news:
                lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            lines.append(None)
            self.news.notify_all()

    def log(self):
        return "\n".join(f"{self.name} {kind}: {line}" for kind, lines in (("out", self.out), ("err", self.err))
                         for line in lines if line is not None)

    def _until(self, lines, pattern, what):
        deadline, at = time.monotonic() + WAIT, 0
        with self.news:
            while True:
                for line in lines[at:]:
                    if line is None:
                        pytest.fail(f"{self.name} has ended without {what} {pattern!r}")
                    found = re.search(pattern, line)
                    if found:
                        return found
                at = len(lines)
                if not self.news.wait(deadline - time.monotonic()):
                    pytest.fail(f"{self.name}: no {what} {pattern!r}")

    def expect(self, pattern):
        """Waits for a line of stdout; the match."""
        return self._until(self.out, pattern, "line")

    def expect_err(self, pattern):
        """Waits for a line of stderr; the match."""
        return self._until(self.err, pattern, "line of stderr")

    def interrupt(self):
        self.popen.send_signal(signal.SIGINT)

    def kill(self):
        self.popen.kill()

    def press(self):
        """Writes a line to its stdin."""
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def ends(self, status=0):
        """Waits for the end; all that it has printed on stdout."""
        try:
            got = self.popen.wait(WAIT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} does not end")
        for reader in self.readers:
            reader.join()
        assert got == status, f"{self.name}: exit status {got}"
        return "\n".join(self.out[:-1])


class Programs:
    """The programs of a test."""

    def __init__(self, folder):
        self.folder, self.all, self.num = folder, [], 0
        self.key = folder / "key"
        self.key.touch(0o600)
        self.key.write_text(secrets.token_hex(32) + "\n")

    def environment(self, more):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("DMI_") or name.startswith("DMI_TEST")}
        env.update(DMI_KEY_FILE=str(self.key), TMPDIR=str(self.folder), **more)
        return env

    def script(self, text, name="prog.py"):
        """Writes a script; its path.  One that is a path already stays as it is."""
        if "\n" not in text:
            return text
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def start(self, text, *args, join=None, opts=(), env=None, name=None, wait=True, command=None):
        """Starts a process of a script (its text, or path), the first one or one that joins another.

        command: what to run, and its arguments, instead of Python, the script and `args`.
        """
        program = command or [sys.executable, self.script(text), *map(str, args)]
        self.num += 1
        command = [os.path.join(BUILD, "bin/dmirun"), "-l", "0", *opts]
        contact = self.folder / f"contact{self.num}"
        if join is None:
            command += ["--contact", str(contact)]
        else:
            command += ["-i", f"@{join.contact}"]
        process = Process(
            subprocess.Popen(command + program, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                             env=self.environment(env or {})),
            name or f"process {self.num}")
        process.contact = contact if join is None else join.contact
        self.all.append(process)
        if wait:
            process.expect_err("=== joined ===" if join is None else "=== (joined|opened) ===")
        return process

    def run(self, text, *args, status=0, **more):
        """Runs a program of one process; what it has printed."""
        return self.start(text, *args, wait=False, **more).ends(status)

    def close(self):
        for process in self.all:
            if process.popen.poll() is None:
                process.kill()
                process.popen.wait()
            for stream in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
                try:
                    stream.close()
                except OSError:
                    pass


@pytest.fixture
def programs(tmp_path):
    made = Programs(tmp_path)
    yield made
    logs = "\n".join(process.log() for process in made.all)
    made.close()
    print(logs)  # shown if the test has failed
    assert "AddressSanitizer" not in logs and "runtime error" not in logs


# ---- TAP for test/run ---------------------------------------------------------------------------

_tap = []


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        word = "not ok" if report.failed else "ok"
        skip = " # skip" if report.skipped else ""
        _tap.append(f"{word} {len(_tap) + 1} - {report.nodeid.split('/')[-1]}{skip}")


def pytest_sessionfinish():
    path = os.environ.get("DMI_TAP")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(_tap + [f"1..{len(_tap)}"]) + "\n")
