/*
 * memory.c - global memory: mapping, reading, writing, bytes that are held, read-modify-writes.
 *
 * Short reads and writes of bytes that are here are done with the interpreter's lock held
 * (DMI_try_read): giving it away would cost more, and with several threads far more.  All others
 * give it away.
 */
#include "dmi_python.h"

#define SHORT 65536 /* bytes; copying more takes longer than it costs to give the lock away */

/* Checks that a function was given so many arguments. */
static bool given(Py_ssize_t num, Py_ssize_t wanted) {
  if (num == wanted) return true;
  PyErr_Format(PyExc_TypeError, "%zd arguments are needed, not %zd", wanted, num);
  return false;
}

static bool address_of(PyObject *const *args, Py_ssize_t num, int64_t *values) {
  for (Py_ssize_t i = 0; i < num; i++) {
    if (!dmi_py_int64(args[i], &values[i])) return false;
  }
  return true;
}

static bool read_to(int64_t addr, int64_t size, void *buf, int8_t mode) {
  if (size <= SHORT && dmi_py_here() && DMI_try_read(addr, size, buf, mode)) return true;
  return CALL(DMI_read(addr, size, buf, mode, NULL));
}

/* read(addr, size, mode): bytes. */
static PyObject *read_bytes(PyObject *module, PyObject *const *args, Py_ssize_t num) {
  int64_t v[3];
  PyObject *result;
  (void)module;
  if (!given(num, 3) || !address_of(args, 3, v)) return NULL;
  if (v[1] < 0) {
    PyErr_SetString(PyExc_ValueError, "the size is negative");
    return NULL;
  }
  result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)v[1]);
  if (result && !read_to(v[0], v[1], PyBytes_AsString(result), (int8_t)v[2])) Py_CLEAR(result);
  return result;
}

/* A number of C in these bytes, by its letter in a format of struct. */
static PyObject *number_of(char code, const void *bytes) {
#define NUMBER(letter, type, make)         \
  case letter: {                           \
    type value_;                           \
    memcpy(&value_, bytes, sizeof value_); \
    return make(value_);                   \
  }
  switch (code) {
    NUMBER('d', double, PyFloat_FromDouble)
    NUMBER('f', float, PyFloat_FromDouble)
    NUMBER('q', int64_t, PyLong_FromLongLong)
    NUMBER('Q', uint64_t, PyLong_FromUnsignedLongLong)
    NUMBER('i', int32_t, PyLong_FromLong)
    NUMBER('I', uint32_t, PyLong_FromUnsignedLong)
    NUMBER('h', int16_t, PyLong_FromLong)
    NUMBER('H', uint16_t, PyLong_FromLong)
    NUMBER('b', int8_t, PyLong_FromLong)
    NUMBER('B', uint8_t, PyLong_FromLong)
    default:
      PyErr_Format(PyExc_ValueError, "%c is no letter of a number", code);
      return NULL;
  }
}

/* read_number(addr, letter, size, mode): an int or a float. */
static PyObject *read_number(PyObject *module, PyObject *const *args, Py_ssize_t num) {
  unsigned char bytes[8];
  int64_t v[4];
  (void)module;
  if (!given(num, 4) || !address_of(args, 4, v)) return NULL;
  if (v[2] < 1 || v[2] > (int64_t)sizeof bytes) {
    PyErr_SetString(PyExc_ValueError, "a number has 1 to 8 bytes");
    return NULL;
  }
  return read_to(v[0], v[2], bytes, (int8_t)v[3]) ? number_of((char)v[1], bytes) : NULL;
}

/* read_into(addr, buffer, mode) */
static PyObject *read_into(PyObject *module, PyObject *args) {
  long long addr;
  int mode;
  Py_buffer buffer;
  bool good;
  (void)module;
  if (!PyArg_ParseTuple(args, "Lw*i", &addr, &buffer, &mode)) return NULL;
  good = read_to(addr, buffer.len, buffer.buf, (int8_t)mode);
  PyBuffer_Release(&buffer);
  return NONE_IF(good);
}

/* write(addr, buffer, mode) */
static PyObject *write_bytes(PyObject *module, PyObject *const *args, Py_ssize_t num) {
  int64_t addr, mode;
  Py_buffer from;
  bool good;
  (void)module;
  if (!given(num, 3) || !dmi_py_int64(args[0], &addr) || !dmi_py_int64(args[2], &mode)) return NULL;
  if (PyObject_GetBuffer(args[1], &from, PyBUF_SIMPLE) != 0) return NULL;
  good =
      from.len <= SHORT && dmi_py_here() && DMI_try_write(addr, from.len, from.buf, (int8_t)mode);
  if (!good) good = CALL(DMI_write(addr, from.len, from.buf, (int8_t)mode, NULL));
  PyBuffer_Release(&from);
  return NONE_IF(good);
}

/* ---- Mappings and objects ---- */

static PyObject *map(PyObject *module, PyObject *args) {
  long long page_size, page_num;
  int64_t addr;
  (void)module;
  if (!PyArg_ParseTuple(args, "LL", &page_size, &page_num)) return NULL;
  return CALL(DMI_mmap(&addr, page_size, page_num, NULL)) ? PyLong_FromLongLong(addr) : NULL;
}

static PyObject *unmap(PyObject *module, PyObject *args) {
  long long addr;
  (void)module;
  if (!PyArg_ParseTuple(args, "L", &addr)) return NULL;
  return NONE_IF(CALL(DMI_munmap(addr, NULL)));
}

static PyObject *allocate(PyObject *module, PyObject *args) {
  long long size, page_size;
  int64_t addr;
  (void)module;
  if (!PyArg_ParseTuple(args, "LL", &size, &page_size)) return NULL;
  return CALL(DMI_malloc(&addr, size, page_size)) ? PyLong_FromLongLong(addr) : NULL;
}

static PyObject *release(PyObject *module, PyObject *args) {
  long long addr;
  (void)module;
  if (!PyArg_ParseTuple(args, "L", &addr)) return NULL;
  return NONE_IF(CALL(DMI_free(addr)));
}

static PyObject *save(PyObject *module, PyObject *args) {
  long long addr, size;
  int saved;
  (void)module;
  if (!PyArg_ParseTuple(args, "LLp", &addr, &size, &saved)) return NULL;
  return NONE_IF(CALL(saved ? DMI_save(addr, size) : DMI_unsave(addr, size)));
}

static PyObject *revive(PyObject *module, PyObject *args) {
  long long addr, size;
  int64_t pages = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "LL", &addr, &size)) return NULL;
  return CALL(DMI_revive(addr, size, &pages)) ? PyLong_FromLongLong(pages) : NULL;
}

/* ---- Read-modify-writes ---- */

/* fetch_add(addr, add, mode): the number before. */
static PyObject *fetch_add(PyObject *module, PyObject *const *args, Py_ssize_t num) {
  int64_t v[3], old = 0;
  (void)module;
  if (!given(num, 3) || !address_of(args, 3, v)) return NULL;
  return CALL(DMI_fad(v[0], v[1], &old, (int8_t)v[2], NULL)) ? PyLong_FromLongLong(old) : NULL;
}

/* swap(addr, bytes, mode): the bytes before. */
static PyObject *swap(PyObject *module, PyObject *args) {
  long long addr;
  int mode;
  Py_buffer out;
  PyObject *old;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ly*i", &addr, &out, &mode)) return NULL;
  old = PyBytes_FromStringAndSize(NULL, out.len);
  if (old && !CALL(DMI_fas(addr, out.len, out.buf, PyBytes_AsString(old), (int8_t)mode, NULL)))
    Py_CLEAR(old);
  PyBuffer_Release(&out);
  return old;
}

/* compare_swap(addr, expected, wanted, mode): whether it was done. */
static PyObject *compare_swap(PyObject *module, PyObject *args) {
  long long addr;
  int mode;
  int8_t flag = 0;
  Py_buffer expected, wanted;
  bool good = false;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ly*y*i", &addr, &expected, &wanted, &mode)) return NULL;
  if (expected.len != wanted.len) {
    PyErr_SetString(PyExc_ValueError, "both must have the same number of bytes");
  } else {
    good = CALL(DMI_cas(addr, wanted.len, expected.buf, wanted.buf, &flag, (int8_t)mode, NULL));
  }
  PyBuffer_Release(&expected);
  PyBuffer_Release(&wanted);
  return good ? PyBool_FromLong(flag) : NULL;
}

/* watch(addr, bytes): waits until they are others, and returns those. */
static PyObject *watch(PyObject *module, PyObject *args) {
  long long addr;
  Py_buffer in;
  PyObject *out;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ly*", &addr, &in)) return NULL;
  out = PyBytes_FromStringAndSize(NULL, in.len);
  if (out && !CALL(DMI_watch(addr, in.len, in.buf, PyBytes_AsString(out), NULL))) Py_CLEAR(out);
  PyBuffer_Release(&in);
  return out;
}

/* ---- Bytes that are held: an object with a read-only buffer ---- */

PyObject *dmi_py_hold_type;

struct hold {
  PyObject_HEAD DMI_local_hold_t held;
  const void *ptr;
  int64_t size;
};

static PyObject *hold(PyObject *module, PyObject *args) {
  long long addr, size;
  struct hold *made;
  (void)module;
  if (!PyArg_ParseTuple(args, "LL", &addr, &size)) return NULL;
  made = PyObject_New(struct hold, (PyTypeObject *)dmi_py_hold_type);
  if (!made) return NULL;
  made->ptr = NULL;
  made->size = size;
  if (!CALL(DMI_hold(addr, size, &made->ptr, &made->held))) Py_CLEAR(made);
  return (PyObject *)made;
}

static void hold_dealloc(PyObject *self) {
  struct hold *held = (struct hold *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (held->ptr) (void)DMI_release(&held->held);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int hold_buffer(PyObject *self, Py_buffer *view, int flags) {
  struct hold *held = (struct hold *)self;
  return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)held->ptr, (Py_ssize_t)held->size, 1,
                           flags);
}

static PyType_Slot hold_slots[] = {
    {Py_tp_dealloc, (void *)hold_dealloc},
    {Py_bf_getbuffer, (void *)hold_buffer},
    {0, NULL},
};
PyType_Spec dmi_py_hold_spec = {
    .name = "_dmi.Hold",
    .basicsize = sizeof(struct hold),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = hold_slots,
};

/* ---- The base of objects whose buffer is that of what their method _buffer gives ---- */

static int buffered_buffer(PyObject *self, Py_buffer *view, int flags) {
  PyObject *of = PyObject_CallMethod(self, "_buffer", NULL);
  int result = of ? PyObject_GetBuffer(of, view, flags) : -1;
  Py_XDECREF(of);
  return result;
}

static PyType_Slot buffered_slots[] = {
    {Py_bf_getbuffer, (void *)buffered_buffer},
    {0, NULL},
};
PyType_Spec dmi_py_buffered_spec = {
    .name = "_dmi.Buffered",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = buffered_slots,
};

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL

PyMethodDef dmi_py_memory_functions[] = {
    {"read", FAST(read_bytes), NULL},
    {"read_number", FAST(read_number), NULL},
    {"read_into", read_into, METH_VARARGS, NULL},
    {"write", FAST(write_bytes), NULL},
    {"map", map, METH_VARARGS, NULL},
    {"unmap", unmap, METH_VARARGS, NULL},
    {"malloc", allocate, METH_VARARGS, NULL},
    {"free", release, METH_VARARGS, NULL},
    {"save", save, METH_VARARGS, NULL},
    {"revive", revive, METH_VARARGS, NULL},
    {"fetch_add", FAST(fetch_add), NULL},
    {"swap", swap, METH_VARARGS, NULL},
    {"compare_swap", compare_swap, METH_VARARGS, NULL},
    {"watch", watch, METH_VARARGS, NULL},
    {"hold", hold, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
