/*
 * sync.c - mutexes, conditions, barriers.
 *
 * A local barrier is a number for Python: its address, in memory that destroy frees.
 */
#include "dmi_python.h"

/* A function of one address without a result. */
#define WITH_ADDRESS(name, call)                                     \
  static PyObject *name(PyObject *module, PyObject *object) {        \
    int64_t addr;                                                    \
    (void)module;                                                    \
    return NONE_IF(dmi_py_int64(object, &addr) && CALL(call(addr))); \
  }
WITH_ADDRESS(mutex_init, DMI_mutex_init)
WITH_ADDRESS(mutex_destroy, DMI_mutex_destroy)
WITH_ADDRESS(mutex_lock, DMI_mutex_lock)
WITH_ADDRESS(mutex_unlock, DMI_mutex_unlock)
WITH_ADDRESS(mutex_consistent, DMI_mutex_consistent)
WITH_ADDRESS(cond_init, DMI_cond_init)
WITH_ADDRESS(cond_destroy, DMI_cond_destroy)
WITH_ADDRESS(cond_signal, DMI_cond_signal)
WITH_ADDRESS(cond_broadcast, DMI_cond_broadcast)
WITH_ADDRESS(barrier_init, DMI_barrier_init)
WITH_ADDRESS(barrier_destroy, DMI_barrier_destroy)

static PyObject *mutex_trylock(PyObject *module, PyObject *object) {
  int64_t addr;
  int32_t flag = DMI_FALSE;
  (void)module;
  if (!dmi_py_int64(object, &addr) || !CALL(DMI_mutex_trylock(addr, &flag))) return NULL;
  return PyBool_FromLong(flag);
}

static PyObject *cond_wait(PyObject *module, PyObject *args) {
  long long cond, mutex;
  (void)module;
  if (!PyArg_ParseTuple(args, "LL", &cond, &mutex)) return NULL;
  return NONE_IF(CALL(DMI_cond_wait(cond, mutex)));
}

/* ---- Barriers ---- */

static PyObject *local_barrier(PyObject *module, PyObject *object) {
  DMI_local_barrier_t *local;
  int64_t addr;
  (void)module;
  if (!dmi_py_int64(object, &addr)) return NULL;
  local = PyMem_Calloc(1, sizeof *local);
  if (!local) return PyErr_NoMemory();
  if (CALL(DMI_local_barrier_init(local, addr))) return PyLong_FromVoidPtr(local);
  PyMem_Free(local);
  return NULL;
}

static PyObject *local_barrier_destroy(PyObject *module, PyObject *object) {
  DMI_local_barrier_t *local = PyLong_AsVoidPtr(object);
  bool good;
  (void)module;
  if (PyErr_Occurred()) return NULL;
  good = CALL(DMI_local_barrier_destroy(local));
  PyMem_Free(local);
  return NONE_IF(good);
}

static DMI_local_barrier_t *local_of(PyObject *object) {
  DMI_local_barrier_t *local = PyLong_AsVoidPtr(object);
  return PyErr_Occurred() ? NULL : local;
}

static PyObject *barrier_sync(PyObject *module, PyObject *args) {
  DMI_local_barrier_t *local;
  PyObject *object;
  int num;
  (void)module;
  if (!PyArg_ParseTuple(args, "Oi", &object, &num)) return NULL;
  local = local_of(object);
  return NONE_IF(local && CALL(DMI_local_barrier_sync(local, num)));
}

/* barrier_reduce(local, op, type, buffer, num): the buffer gets the result. */
static PyObject *barrier_reduce(PyObject *module, PyObject *args) {
  DMI_local_barrier_t *local;
  PyObject *object;
  Py_buffer buffer;
  int op, type, num;
  bool good;
  (void)module;
  if (!PyArg_ParseTuple(args, "Oiiw*i", &object, &op, &type, &buffer, &num)) return NULL;
  local = local_of(object);
  int64_t size = type == DMI_TYPE_INT32 || type == DMI_TYPE_FLOAT ? 4 : 8;
  good = local && CALL(DMI_local_barrier_allreduce_op(local, op, type, buffer.buf, buffer.buf,
                                                      buffer.len / size, num));
  PyBuffer_Release(&buffer);
  return NONE_IF(good);
}

PyMethodDef dmi_py_sync_functions[] = {
    {"mutex_init", mutex_init, METH_O, NULL},
    {"mutex_destroy", mutex_destroy, METH_O, NULL},
    {"mutex_lock", mutex_lock, METH_O, NULL},
    {"mutex_unlock", mutex_unlock, METH_O, NULL},
    {"mutex_trylock", mutex_trylock, METH_O, NULL},
    {"mutex_consistent", mutex_consistent, METH_O, NULL},
    {"cond_init", cond_init, METH_O, NULL},
    {"cond_destroy", cond_destroy, METH_O, NULL},
    {"cond_wait", cond_wait, METH_VARARGS, NULL},
    {"cond_signal", cond_signal, METH_O, NULL},
    {"cond_broadcast", cond_broadcast, METH_O, NULL},
    {"barrier_init", barrier_init, METH_O, NULL},
    {"barrier_destroy", barrier_destroy, METH_O, NULL},
    {"local_barrier", local_barrier, METH_O, NULL},
    {"local_barrier_destroy", local_barrier_destroy, METH_O, NULL},
    {"barrier_sync", barrier_sync, METH_VARARGS, NULL},
    {"barrier_reduce", barrier_reduce, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
