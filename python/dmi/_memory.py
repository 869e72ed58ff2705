"""Global memory: arrays of numbers or records, and bytes at addresses."""
import array as _array
import struct
import sys

from . import _dmi, _program
from ._errors import AddressError, InvalidError

try:
    import numpy
except ImportError:
    numpy = None

INVALIDATE_READ, UPDATE_READ, GET_READ, EXCLUSIVE_WRITE, PUT_WRITE, EXCLUSIVE_ATOMIC, PUT_ATOMIC = \
    range(1, 8)
_PAGE = 65536  # bytes of a page, about, if nothing is said


def mmap(page_size, page_num):
    """Maps page_num pages of page_size bytes; the global address of the first byte.

    All bytes are zero.  A page takes no memory before it is touched.
    """
    return _dmi.map(page_size, page_num)


def munmap(address):
    """Unmaps what mmap has mapped at this address."""
    _dmi.unmap(address)


def read(address, size, mode=INVALIDATE_READ):
    """Reads `size` bytes; returns bytes.

    mode: INVALIDATE_READ keeps a copy of the page here until somebody writes it; UPDATE_READ keeps one
    that follows each write; GET_READ keeps nothing.  Of one page, the bytes are of one moment.
    """
    return _dmi.read(address, size, mode)


def read_into(address, buffer, mode=INVALIDATE_READ):
    """Reads as many bytes as `buffer` has into it (bytearray, a numpy array, ...)."""
    _dmi.read_into(address, buffer, mode)


def write(address, buffer, mode=EXCLUSIVE_WRITE):
    """Writes the bytes of `buffer` (bytes, a numpy array, ...).

    mode: EXCLUSIVE_WRITE moves the page here first; PUT_WRITE sends the bytes to its owner.
    """
    _dmi.write(address, buffer, mode)


def hold(address, size):
    """The `size` bytes at `address`, which must be in one page, as a read-only buffer without a copy.

    They are those of this moment, and stay so and valid as long as the buffer, or anything made of it,
    is there; meanwhile the page counts as memory of this process.
    """
    return _dmi.hold(address, size)


def fetch_add(address, number, mode=PUT_ATOMIC):
    """Adds to the signed number of 8 bytes at `address` in one step; returns what it was before."""
    return _dmi.fetch_add(address, number, mode)


def swap(address, data, mode=PUT_ATOMIC):
    """Writes these bytes, and returns those that were there before, in one step; of one page."""
    return _dmi.swap(address, data, mode)


def compare_swap(address, expected, wanted, mode=PUT_ATOMIC):
    """If the bytes are `expected` they become `wanted`, in one step; True if so."""
    return _dmi.compare_swap(address, expected, wanted, mode)


def watch(address, data):
    """Waits until the bytes at `address` are other than `data`, and returns them; of one page."""
    return _dmi.watch(address, data)


def name(text, what):
    """Names an address or an Array for all processes, also those that join later (DMI_root_set)."""
    _dmi.root_set(text, getattr(what, "address", what))


def named(text):
    """The address of this name, or 0."""
    return _dmi.root_get(text)


# ---- Arrays -------------------------------------------------------------------------------------


class _Items:
    """What an element is: bytes there and back."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.struct = self.code = None
        if numpy is not None and not _is_record(dtype):
            self.numpy = numpy.dtype(dtype)
            if self.numpy.hasobject:
                raise InvalidError(f"{dtype!r}: elements of an array are bytes, not Python objects", 1)
            self.size = self.numpy.itemsize
            if self.numpy.shape == () and self.numpy.char in "bBhHiIlLqQfd?" and self.numpy.isnative:
                self.struct = struct.Struct(self.numpy.char)
            self.dtype = self.numpy
        else:
            self.numpy = None
            try:
                self.struct = struct.Struct(dtype)
            except (struct.error, TypeError) as error:
                also = "this Python has no numpy" if numpy is None else "or a numpy dtype"
                raise InvalidError(f"{dtype!r} is no type of elements: a format of the module struct, "
                                   f"such as 'd'; {also} ({error})", 1) from error
            self.size = self.struct.size
            self.code = dtype if dtype in tuple("bBhHiIlLqQfd") else None
        if self.size < 1:
            raise InvalidError(f"{dtype!r}: an element must have bytes", 1)
        little = sys.byteorder == "little"
        letter = self.struct.format.lstrip("@=<" if little else "@=>!") if self.struct else ""
        letter = {"l": "q", "L": "Q"}.get(letter, letter) if self.size == 8 else letter
        self.adds = letter in ("q", "Q")  # what DMI_fad adds to
        self.letter = ord(letter) if little and len(letter) == 1 and letter in "bBhHiIqQfd" else 0

    def load(self, data):
        """One element."""
        if self.struct is None:
            return numpy.frombuffer(data, self.numpy)[0]
        values = self.struct.unpack(data)
        return values[0] if len(values) == 1 else values

    def dump(self, value):
        """The bytes of one element."""
        if self.numpy is not None and (self.struct is None or isinstance(value, numpy.ndarray)):
            return numpy.asarray(value, self.numpy.base).astype(self.numpy.base).tobytes()
        try:
            return self.struct.pack(*value) if isinstance(value, tuple) else self.struct.pack(value)
        except struct.error as error:
            raise TypeError(f"{value!r} is no element of an array of {self.dtype}: {error}") from None

    def many(self, data):
        """Elements in a buffer, without a copy if they can have it."""
        if self.numpy is not None:
            return numpy.frombuffer(data, self.numpy)
        if self.code:
            return memoryview(data).cast("B").cast(self.code)
        return list(self.struct.iter_unpack(data))

    def dump_many(self, values, num):
        """The bytes of `num` elements; `values` is one for all, or as many."""
        if self.numpy is not None:
            shape = (num,) + self.numpy.shape
            return numpy.ascontiguousarray(
                numpy.broadcast_to(numpy.asarray(values, self.numpy.base), shape))
        if isinstance(values, (int, float)):
            values = [values] * num
        data = (_array.array(self.code, values).tobytes() if self.code
                else b"".join(self.dump(value) for value in values))
        if len(data) != num * self.size:
            raise InvalidError(f"{len(data) // self.size} elements for a range of {num}", 1)
        return data


def _is_record(dtype):
    """True for a format of struct that numpy understands otherwise, such as "<id"."""
    return isinstance(dtype, str) and len(dtype.lstrip("@=<>!")) > 1 and not _numpy_name(dtype)


def _numpy_name(dtype):
    try:
        numpy.dtype(dtype)
        return "," not in dtype
    except TypeError:
        return False


class Array(_dmi.Buffered):
    """An array in global memory (dmi.array); may be given to other processes.

    a[i], a[i:j] read: a slice is a copy (a numpy array, or without numpy a memoryview; for records of
    struct a list of tuples).  a[i] = v, a[i:j] = v write, v being one value for all or as many.
    view gives elements without a copy, edit a copy that is written back.
    memoryview(a) and numpy.asarray(a) are as a.view().

    address: of the first element, in bytes; dtype; itemsize: bytes of an element; page_size: bytes of
    a page, a multiple of it; read_mode, write_mode: how a[...] reads and writes, here.
    """

    def __init__(self, address, dtype, length, page_size, read=INVALIDATE_READ, write=EXCLUSIVE_WRITE):
        self._items = _Items(dtype)
        self.address, self.length, self.page_size = address, length, page_size
        self.dtype, self.itemsize = self._items.dtype, self._items.size
        self.read_mode, self.write_mode = read, write
        self._load, self._size, self._letter = self._items.load, self._items.size, self._items.letter

    def __reduce__(self):
        return Array, (self.address, self.dtype, self.length, self.page_size, self.read_mode,
                       self.write_mode)

    def __repr__(self):
        return f"<dmi.Array of {self.length} {self.dtype} at {self.address:#x}>"

    def __len__(self):
        return self.length

    def __eq__(self, other):
        return isinstance(other, Array) and self.__reduce__() == other.__reduce__()

    __hash__ = object.__hash__

    def modes(self, read=None, write=None):
        """The same array, read and written in other modes (dmi.GET_READ, dmi.PUT_WRITE ...)."""
        return Array(self.address, self.dtype, self.length, self.page_size, read or self.read_mode,
                     write or self.write_mode)

    def place(self, index):
        """The global address of an element."""
        return self.address + self._counted(index) * self._size

    def _counted(self, index):
        """A negative index counts from the end."""
        found = index + self.length if index < 0 else index
        if not 0 <= found < self.length:
            raise IndexError(f"there is no element {index}: the array has {self.length}")
        return found

    def _range(self, start, stop):
        start, stop, _ = slice(start, stop).indices(self.length)
        return start, max(start, stop)

    def __getitem__(self, index):
        if not isinstance(index, slice):
            if not 0 <= index < self.length:
                index = self._counted(index)
            if self._letter:
                return _dmi.read_number(self.address + index * self._size, self._letter, self._size, self.read_mode)
            return self._load(_dmi.read(self.address + index * self._size, self._size, self.read_mode))
        start, stop, step = index.indices(self.length)
        if step != 1:
            return self[:][index]
        stop = max(start, stop)
        data = bytearray((stop - start) * self._size)
        _dmi.read_into(self.address + start * self._size, data, self.read_mode)
        return self._items.many(data)

    def __setitem__(self, index, value):
        if not isinstance(index, slice):
            _dmi.write(self.place(index), self._items.dump(value), self.write_mode)
            return
        start, stop, step = index.indices(self.length)
        if step != 1:
            raise InvalidError("only ranges without a step can be written", 1)
        stop = max(start, stop)
        _dmi.write(self.address + start * self._size, self._items.dump_many(value, stop - start),
                   self.write_mode)

    def __iter__(self):
        for start, stop in self.pages():
            yield from self[start:stop]

    def pages(self, start=0, stop=None):
        """Iterates over the pages of a range, as (start, stop) of their elements in it."""
        start, stop = self._range(start, stop)
        each = self.page_size // self._size
        while start < stop:
            end = min(stop, (start // each + 1) * each)
            yield start, end
            start = end

    def view(self, start=0, stop=None):
        """The elements from start to stop - 1, read-only, as they are at this moment.

        If they are in one page nothing is copied: the view is the page's memory in this process (the
        page is fetched, if it is elsewhere).  It does not change, also when the array is written or
        freed: whoever writes leaves this memory to the view.  As long as there is the view, or an array
        made of it, the whole page counts as memory of this process.  Elements of several pages are
        copied, each page being read at one moment.
        """
        start, stop = self._range(start, stop)
        size, address = (stop - start) * self._size, self.address + start * self._size
        if size and (start * self._size) // self.page_size == (stop * self._size - 1) // self.page_size:
            return self._items.many(_dmi.hold(address, size))
        return self._items.many(_dmi.read(address, size, self.read_mode))

    def _buffer(self):
        return self.view()

    def edit(self, start=0, stop=None):
        """For `with a.edit(i, j) as part:` a copy of elements, which is written back at the end.

        All of the range is written (mode: write_mode), so two threads must not edit overlapping ranges at
        the same time.  After an exception nothing is written.
        """
        return _Edit(self, *self._range(start, stop))

    def fetch_add(self, index, number, mode=PUT_ATOMIC):
        """Adds to an element in one step; returns what it was.  Elements must be integers of 8 bytes ("q")."""
        if not self._items.adds:
            raise TypeError(f"fetch_add adds to integers of 8 bytes ('q'); the elements of this array are {self.dtype}")
        return self._load(struct.pack("q", _dmi.fetch_add(self.place(index), number, mode)))

    def swap(self, index, value, mode=PUT_ATOMIC):
        """Writes an element, and returns what it was, in one step."""
        return self._load(_dmi.swap(self.place(index), self._items.dump(value), mode))

    def compare_swap(self, index, expected, wanted, mode=PUT_ATOMIC):
        """If the element is `expected` it becomes `wanted`, in one step; True if so."""
        dump = self._items.dump
        return _dmi.compare_swap(self.place(index), dump(expected), dump(wanted), mode)

    def watch(self, index, value):
        """Waits until the element is another than `value`, without messages, and returns it."""
        return self._load(_dmi.watch(self.place(index), self._items.dump(value)))

    def save(self, start=0, stop=None):
        """Asks this process to keep these pages when it must replace some (DMI_save)."""
        start, stop = self._range(start, stop)
        _dmi.save(self.address + start * self._size, (stop - start) * self._size, True)

    def revive(self):
        """Makes pages usable again that were lost with a process, as zeros; how many."""
        return _dmi.revive(self.address, self.length * self._size)

    def free(self):
        """Frees the array; from then on each use of it raises AddressError with the line of this call, views excepted."""
        _dmi.unmap(self.address)
        self._freed = f"freed at {_program._caller()}"
        del self.address
        self.__class__ = _FreedArray


class _FreedArray(Array):
    """What an array is after its free(); a class of its own, so that uses of others take no longer for it."""

    def __getattr__(self, name):
        if name == "address":
            raise AddressError(f"DMI_EADDR: this array of {self.length} {self.dtype} was {self._freed}", 2)
        raise AttributeError(f"'Array' object has no attribute '{name}'")

    def __repr__(self):
        return f"<dmi.Array of {self.length} {self.dtype}, {self._freed}>"

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


class _Edit:
    def __init__(self, array, start, stop):
        self.array, self.start, self.stop = array, start, stop

    def __enter__(self):
        self.part = self.array[self.start:self.stop]
        return self.part

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.array[self.start:self.stop] = self.part


def array(dtype, length, page_size=None, *, read=INVALIDATE_READ, write=EXCLUSIVE_WRITE):
    """Makes an Array of `length` elements, all zero.

    dtype: a format of the module struct for numbers or records in it ("d", "<iq"), or what numpy.dtype
        takes (with numpy), also with a shape: ("f8", 3) makes rows of three.
    page_size: bytes of a page, the unit that moves between processes: a multiple of the element's size
        (InvalidError otherwise); None: about 64 KiB.  What different processes write should be in different
        pages.
    read, write: the modes of a[...] (see dmi.read, dmi.write).

    Memory is taken page by page when elements are written, wherever that is; NoMemoryError then says that
    no process has any left.  2^62 bytes and more are refused at once.
    """
    items = _Items(dtype)
    if length < 1:
        raise InvalidError(f"an array of {length} elements: it must have some", 4)
    if page_size is None:
        page_size = items.size * max(1, min(length, _PAGE // items.size))
    if page_size < 1 or page_size % items.size:
        fits = items.size * max(1, round(page_size / items.size))
        raise InvalidError(
            f"elements of {items.size} bytes do not fit pages of {page_size} bytes: a page must have a "
            f"whole number of them, such as {fits} bytes", 4)
    pages = -(-length * items.size // page_size)
    if pages * page_size >= 1 << 62:
        raise InvalidError(f"{length} elements of {items.size} bytes are 2^62 bytes or more", 4)
    return Array(_dmi.map(page_size, pages), items.dtype, length, page_size, read, write)


def pool():
    """The memory that this process lends, as a dict.

    limit (dmirun -s), used, peak, copies, tables, spilled: bytes; sent, taken, dropped: pages.
    """
    names = "limit used peak copies tables spilled sent taken dropped".split()
    return dict(zip(names, _dmi.pool()))
