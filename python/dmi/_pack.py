"""Objects as bytes, for other processes: pickle, with the bytes of large arrays beside it."""
import pickle
import struct

_PLAIN, _BESIDE = 0, 1


def dumps(what):
    """Bytes of any object that can be pickled."""
    buffers = []
    try:
        text = pickle.dumps(what, 5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"{error}: what goes to another process must be possible to pickle; functions must be "
            "at the top level of the script or of a module") from error
    if not buffers:
        return b"\0" + text
    parts = [buffer.raw() for buffer in buffers]
    sizes = [len(text)] + [part.nbytes for part in parts]
    head = struct.pack(f"<BI{len(sizes)}Q", _BESIDE, len(sizes), *sizes)
    return b"".join([head, text, *parts])


def loads(data):
    """The object. Arrays in it use the memory of `data`, so that must not be used again."""
    view = memoryview(data)
    if view[0] == _PLAIN:
        return pickle.loads(view[1:])
    (num,) = struct.unpack_from("<I", view, 1)
    sizes = struct.unpack_from(f"<{num}Q", view, 5)
    at, parts = 5 + 8 * num, []
    for size in sizes:
        parts.append(view[at:at + size])
        at += size
    return pickle.loads(parts[0], buffers=parts[1:])
