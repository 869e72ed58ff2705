/*
 * farm.c - farms of tasks: a task is a call of Python, its result is bytes.
 *
 * A farm is a number for Python: its address, in memory that farm_free frees.  The job that all
 * tasks get has its length before it.
 */
#include "dmi_farm.h"
#include "dmi_python.h"

/* Copies the result of a task, which is (status, bytes).  False: the exception is set. */
static bool take(PyObject *result, void *out, int64_t size, int32_t *status) {
  char *bytes;
  Py_ssize_t num;
  int number;
  if (!result || !PyArg_ParseTuple(result, "iy#", &number, &bytes, &num)) return false;
  if (num > size) {
    PyErr_SetString(PyExc_ValueError, "the result is too large");
    return false;
  }
  memcpy(out, bytes, (size_t)num);
  *status = number;
  return true;
}

int32_t dmi_py_task(int64_t task, void *out, int64_t size, const void *job) {
  PyGILState_STATE lock = PyGILState_Ensure();
  int64_t length = 0;
  int32_t status = 1;
  PyObject *result;
  memcpy(&length, job, sizeof length);
  result = PyObject_CallFunction(dmi_py_callbacks.task, "LLy#", (long long)task, (long long)size,
                                 (const char *)job + sizeof length, (Py_ssize_t)length);
  if (!take(result, out, size, &status)) PyErr_WriteUnraisable(dmi_py_callbacks.task);
  Py_XDECREF(result);
  PyGILState_Release(lock);
  return status;
}

/* `arg` is a function of Python. */
static void event(const DMI_farm_event_t *event, void *arg) {
  PyGILState_STATE lock = PyGILState_Ensure();
  PyObject *result = PyObject_CallFunction(arg, "iiLLLLid", (int)event->kind, (int)event->dmi_id,
                                           (long long)event->value, (long long)event->tasks,
                                           (long long)event->done, (long long)event->failed,
                                           (int)event->processes, event->seconds);
  if (!result) PyErr_WriteUnraisable(arg);
  Py_XDECREF(result);
  PyGILState_Release(lock);
}

static void *job_of(const Py_buffer *bytes) {
  int64_t length = bytes->len;
  char *job = PyMem_Malloc(sizeof length + (size_t)length);
  if (!job) return PyErr_NoMemory();
  memcpy(job, &length, sizeof length);
  memcpy(job + sizeof length, bytes->buf, (size_t)length);
  return job;
}

/* farm_run(tasks, result_size, job, processes, threads, retries, event or None):
 * (farm, failed, seconds) */
static PyObject *farm_run(PyObject *module, PyObject *args) {
  DMI_farm_t *farm = PyMem_Calloc(1, sizeof *farm);
  long long tasks, size;
  Py_buffer bytes;
  PyObject *hears;
  void *job = NULL;
  bool good = false;
  (void)module;
  if (!farm) return PyErr_NoMemory();
  if (!PyArg_ParseTuple(args, "LLy*iiiO", &tasks, &size, &bytes, &farm->processes, &farm->threads,
                        &farm->retries, &hears)) {
    PyMem_Free(farm);
    return NULL;
  }
  job = job_of(&bytes);
  farm->tasks = tasks;
  farm->result_size = size;
  farm->job = job;
  farm->job_size = (int64_t)sizeof(int64_t) + bytes.len;
  if (hears != Py_None) {
    farm->event = event;
    farm->event_arg = hears;
  }
  good = job && CALL(DMI_farm_run(farm));
  farm->job = NULL;
  PyMem_Free(job);
  PyBuffer_Release(&bytes);
  if (good)
    return Py_BuildValue("NLd", PyLong_FromVoidPtr(farm), (long long)farm->failed, farm->seconds);
  PyMem_Free(farm);
  return NULL;
}

static DMI_farm_t *farm_of(PyObject *object) {
  DMI_farm_t *farm = PyLong_AsVoidPtr(object);
  return PyErr_Occurred() ? NULL : farm;
}

/* farm_result(farm, task): (status, bytes) */
static PyObject *farm_result(PyObject *module, PyObject *args) {
  PyObject *object, *bytes;
  DMI_farm_t *farm;
  long long task;
  int32_t status = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "OL", &object, &task)) return NULL;
  farm = farm_of(object);
  bytes = farm ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)farm->result_size) : NULL;
  if (!bytes) return NULL;
  if (!CALL(DMI_farm_result(farm, task, PyBytes_AsString(bytes), &status))) {
    Py_DECREF(bytes);
    return NULL;
  }
  return Py_BuildValue("iN", (int)status, bytes);
}

static PyObject *farm_free(PyObject *module, PyObject *object) {
  DMI_farm_t *farm = farm_of(object);
  bool good;
  (void)module;
  if (!farm) return NULL;
  good = CALL(DMI_farm_free(farm));
  PyMem_Free(farm);
  return NONE_IF(good);
}

PyMethodDef dmi_py_farm_functions[] = {
    {"farm_run", farm_run, METH_VARARGS, NULL},
    {"farm_result", farm_result, METH_VARARGS, NULL},
    {"farm_free", farm_free, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
