"""Results of remote functions and tasks, as bytes in a place of a given size.

A short one is in the place itself.  A longer one is an object of global memory, and the place has its
address; who reads it frees it, later.
"""
import struct
import sys

from . import _dmi, _pack, _program

_HEAD = struct.Struct("<qq")  # address (0: it follows), bytes
SIZE = 1008  # bytes for a result in its place, if nothing is said


def store(what, place):
    """The bytes for a place of `place` bytes."""
    data = _pack.dumps(what)
    if _HEAD.size + len(data) <= place:
        return _HEAD.pack(0, len(data)) + data
    return _HEAD.pack(_program._put(what), 0)


def place_of(size):
    """The size of a place for results of `size` bytes."""
    return _HEAD.size + size


def load(data):
    """(result, address that is to be freed or 0)"""
    address, size = _HEAD.unpack_from(data)
    if address:
        return _program._look(address), address
    return _pack.loads(memoryview(data)[_HEAD.size:_HEAD.size + size]), 0


def free(address):
    """Frees the memory of a result, if the program still runs."""
    try:
        if address and not sys.is_finalizing():
            _dmi.free(address)
    except Exception:
        pass


def failure(what):
    """What is to be said of the exception that is handled, which is printed here."""
    report = _program._trace()
    _program._report(f"exception in {what}", report)
    return report
