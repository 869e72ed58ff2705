/*
 * remote.c - remote functions: one function of C, dmi_python, is all functions of Python.
 *
 * Its arguments are bytes, which say what is called with what, an output for the bytes of the
 * result, and the values of other calls.  A client and a value are a number and 16 bytes for
 * Python.
 */
#include "dmi_remote.h"

#include "dmi_python.h"

#define MOST 16 /* values of other calls; python/dmi/_remote.py waits for more of them itself */

/* ---- A call that runs ---- */

/* What Python has to say about its failure, for DMI_remote_fail.  With the lock held. */
static void failure_text(char *text, size_t size) {
  PyObject *type, *value, *trace;
  PyObject *string;
  const char *utf8 = NULL;
  PyErr_Fetch(&type, &value, &trace);
  string = value ? PyObject_Str(value) : NULL;
  if (string) utf8 = PyUnicode_AsUTF8AndSize(string, NULL);
  PyOS_snprintf(text, size, "%s", utf8 ? utf8 : "it has failed");
  Py_XDECREF(string);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
}

/* The values of other calls as bytearrays, in a tuple. */
static PyObject *inputs_of(DMI_remote_t *call) {
  int32_t num = DMI_remote_args(call) - 2;
  PyObject *inputs = PyTuple_New(num);
  for (int32_t i = 0; inputs && i < num; i++) {
    int64_t size;
    const void *bytes = DMI_remote_in(call, i + 2, &size);
    PyObject *input = PyByteArray_FromStringAndSize(bytes, (Py_ssize_t)size);
    if (!input || PyTuple_SetItem(inputs, i, input) != 0) Py_CLEAR(inputs);
  }
  return inputs;
}

static void dmi_python(DMI_remote_t *call) {
  char text[DMI_SENTENCE_SIZE] = "";
  int64_t what_size, out_size;
  const void *what = DMI_remote_value(call, 0, &what_size);
  void *out = DMI_remote_out(call, 1, &out_size);
  PyGILState_STATE lock = PyGILState_Ensure();
  PyObject *inputs = inputs_of(call), *result = NULL;
  char *bytes;
  Py_ssize_t size;
  if (inputs)
    result = PyObject_CallFunction(dmi_py_callbacks.remote, "y#OL", what, (Py_ssize_t)what_size,
                                   inputs, (long long)out_size);
  if (result && PyBytes_AsStringAndSize(result, &bytes, &size) == 0 && size <= out_size) {
    memcpy(out, bytes, (size_t)size);
  } else {
    failure_text(text, sizeof text);
  }
  Py_XDECREF(result);
  Py_XDECREF(inputs);
  PyGILState_Release(lock);
  if (text[0]) DMI_remote_fail(call, text);
}

void dmi_py_remote_begin(void) {
  DMI_remote_register("dmi_python", dmi_python);
}

/* ---- Clients ---- */

/* client_open(own_poll, processes, call_bytes): its number. */
static PyObject *client_open(PyObject *module, PyObject *args) {
  DMI_client_options_t options = {0};
  DMI_client_t *client = NULL;
  int own_poll;
  long long bytes;
  (void)module;
  if (!PyArg_ParseTuple(args, "piL", &own_poll, &options.processes, &bytes)) return NULL;
  options.own_poll = own_poll;
  options.call_bytes = bytes;
  return CALL(DMI_client_open(&client, &options)) ? PyLong_FromVoidPtr(client) : NULL;
}

static DMI_client_t *client_of(PyObject *object) {
  DMI_client_t *client = PyLong_AsVoidPtr(object);
  return PyErr_Occurred() ? NULL : client;
}

static PyObject *client_close(PyObject *module, PyObject *object) {
  DMI_client_t *client = client_of(object);
  (void)module;
  return NONE_IF(client && CALL(DMI_client_close(client)));
}

/* The value that these bytes name. */
static bool data_of(PyObject *object, DMI_data_t *data) {
  char *bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return false;
  if (size != sizeof *data) {
    PyErr_SetString(PyExc_ValueError, "this is no value of a call");
    return false;
  }
  memcpy(data, bytes, sizeof *data);
  return true;
}

static PyObject *of_data(const DMI_data_t *data) {
  return PyBytes_FromStringAndSize((const char *)data, sizeof *data);
}

/* Issues a call; `in` ends with arguments that say that there are no more. */
static int32_t issue(DMI_client_t *client, int node, const Py_buffer *what, DMI_data_t *out,
                     int64_t size, const DMI_arg_t *in) {
#define EIGHT(a) (a)[0], (a)[1], (a)[2], (a)[3], (a)[4], (a)[5], (a)[6], (a)[7]
  if (node >= 0)
    return DMI_call_on(client, node, dmi_python, DMI_BYTES(what->buf, what->len),
                       DMI_OUT(out, size), EIGHT(in), EIGHT(in + 8));
  return DMI_call(client, dmi_python, DMI_BYTES(what->buf, what->len), DMI_OUT(out, size),
                  EIGHT(in), EIGHT(in + 8));
}

/* call(client, process or -1, what, (values), size of the result): the result's value. */
static PyObject *call(PyObject *module, PyObject *args) {
  DMI_arg_t in[MOST];
  DMI_data_t out = {{0}}, data;
  DMI_client_t *client;
  PyObject *object, *values;
  Py_buffer what;
  long long size;
  int node;
  bool good;
  (void)module;
  if (!PyArg_ParseTuple(args, "Oiy*O!L", &object, &node, &what, &PyTuple_Type, &values, &size))
    return NULL;
  client = client_of(object);
  good = client && PyTuple_Size(values) <= MOST;
  if (client && !good) PyErr_SetString(PyExc_ValueError, "too many values");
  for (Py_ssize_t i = 0; good && i < MOST; i++) {
    in[i] = dmi_arg(0, 0, 0);
    if (i >= PyTuple_Size(values)) continue;
    good = data_of(PyTuple_GetItem(values, i), &data);
    if (good) in[i] = DMI_IN(data);
  }
  good = good && CALL(issue(client, node, &what, &out, size, in));
  PyBuffer_Release(&what);
  return good ? of_data(&out) : NULL;
}

/* ---- Values ---- */

/* data_read(client, value, offset, size): a bytearray; waits for the call. */
static PyObject *data_read(PyObject *module, PyObject *args) {
  PyObject *object, *name, *bytes;
  DMI_client_t *client;
  DMI_data_t data;
  long long offset, size;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOLL", &object, &name, &offset, &size)) return NULL;
  client = client_of(object);
  if (!client || !data_of(name, &data)) return NULL;
  bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
  if (bytes && !CALL(DMI_data_read(client, data, PyByteArray_AsString(bytes), offset, size, NULL)))
    Py_CLEAR(bytes);
  return bytes;
}

static PyObject *data_drop(PyObject *module, PyObject *args) {
  PyObject *object, *name;
  DMI_client_t *client;
  DMI_data_t data;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &object, &name)) return NULL;
  client = client_of(object);
  return NONE_IF(client && data_of(name, &data) && CALL(DMI_data_drop(client, data)));
}

/* data_failure(client, value): (host, function, sentence) */
static PyObject *data_failure(PyObject *module, PyObject *args) {
  PyObject *object, *name;
  DMI_client_t *client;
  DMI_failure_t failure;
  DMI_data_t data;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &object, &name)) return NULL;
  client = client_of(object);
  if (!client || !data_of(name, &data) || !CALL(DMI_data_failure(client, data, &failure)))
    return NULL;
  return Py_BuildValue(
      "sNN", failure.hostname,
      PyUnicode_DecodeUTF8(failure.function, (Py_ssize_t)strlen(failure.function), "replace"),
      PyUnicode_DecodeUTF8(failure.sentence, (Py_ssize_t)strlen(failure.sentence), "replace"));
}

PyMethodDef dmi_py_remote_functions[] = {
    {"client_open", client_open, METH_VARARGS, NULL},
    {"client_close", client_close, METH_O, NULL},
    {"call", call, METH_VARARGS, NULL},
    {"data_read", data_read, METH_VARARGS, NULL},
    {"data_drop", data_drop, METH_VARARGS, NULL},
    {"data_failure", data_failure, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
