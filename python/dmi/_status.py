"""What a running program is doing, as objects: for a notebook, or a script that watches."""
import json
import os
import shutil
import subprocess
from types import SimpleNamespace

_here = os.path.dirname(os.path.abspath(__file__))


def _dmirun():
    """dmirun: that of this module, or of PATH."""
    folder = _here
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        path = os.path.join(folder, "bin", "dmirun")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("dmirun")
    if not found:
        raise FileNotFoundError("dmirun is not in PATH: it comes with DMI, and asks the program")
    return found


class Part(SimpleNamespace):
    """A part of a Status: part.name and part["name"] are the same; names that are numbers need the second form."""

    def __getitem__(self, name):
        return self.__dict__[name]

    def __iter__(self):
        return iter(self.__dict__)


class Status(Part):
    """What dmirun --status --json tells, as attributes; .as_dict has it as it came."""

    def __repr__(self):
        def short(value):
            if isinstance(value, str) and len(value) > 40:
                value = value[:37] + "..."
            return f"[{len(value)}]" if isinstance(value, list) else "..." if isinstance(value, Part) else repr(value)
        return f"dmi.Status({', '.join(f'{name}={short(self[name])}' for name in self if name != 'as_dict')})"


def _objects(what):
    if isinstance(what, dict):
        return Part(**{key: _objects(value) for key, value in what.items()})
    return [_objects(item) for item in what] if isinstance(what, list) else what


def status(host="localhost", port=None, *, threads=False, key=None, timeout=60):
    """Asks a running program, by any of its processes; starts no process of it, and changes nothing.

    host, port: where that process listens (7880); host may be "@FILE", a file of dmirun --contact; threads: also what
    each thread is doing; key: the file of the program's key, if not ~/.dmi/key.  Returns a Status.

    ConnectionError: no process of DMI answers there, or not within `timeout` seconds.
    """
    where = host if port is None or host.startswith("@") else f"{host}:{port}"
    command = [_dmirun(), "--status"] + (["--threads"] if threads else []) + ["--json"]
    command += (["--key", key] if key else []) + [where]
    # What dmirun has told this process, if it is one of a program itself, is not for another one.
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("DMI_") or name == "DMI_KEY_FILE"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=kept, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise ConnectionError(f"{where}: no answer within {timeout} seconds") from None
    if done.returncode != 0:
        raise ConnectionError(done.stderr.strip() or f"dmirun has ended with status {done.returncode}")
    found = json.loads(done.stdout)
    return Status(**vars(_objects(found)), as_dict=found)
