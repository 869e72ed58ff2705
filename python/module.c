/*
 * module.c - the extension module _dmi: its functions, errors, and processes that were forked.
 */
#include "dmi_python.h"

#include <pthread.h>
#include <stdlib.h>

static PyObject *error_maker; /* a function of Python: an error number to an exception */
static volatile int forked;   /* this process is a child of one that has loaded the module */

static void in_child(void) {
  forked = 1;
}

bool dmi_py_here(void) {
  if (!forked) return true;
  PyErr_SetString(PyExc_RuntimeError,
                  "this process was made by fork in a process of a DMI program (os.fork, or "
                  "multiprocessing's start method 'fork'): it is no process of the program, and "
                  "cannot use dmi; use subprocess, or multiprocessing's start method 'spawn'");
  return false;
}

bool dmi_py_fail(void) {
  int32_t number = DMI_errno();
  const char *why = DMI_error_reason();
  PyObject *made = NULL;
  if (PyErr_Occurred()) return false;
  if (!error_maker) {
    PyErr_SetString(PyExc_RuntimeError, why);
  } else {
    made = PyObject_CallFunction(error_maker, "is", (int)number, why);
  }
  if (made) PyErr_SetObject((PyObject *)Py_TYPE(made), made);
  Py_XDECREF(made);
  return false;
}

bool dmi_py_int64(PyObject *object, int64_t *value) {
  *value = PyLong_AsLongLong(object);
  return *value != -1 || !PyErr_Occurred();
}

static PyObject *set_error_maker(PyObject *module, PyObject *maker) {
  (void)module;
  Py_XDECREF(error_maker);
  error_maker = Py_NewRef(maker);
  return Py_NewRef(Py_None);
}

static PyObject *is_forked(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  return PyBool_FromLong(forked);
}

static PyObject *error_text(PyObject *module, PyObject *args) {
  int number;
  (void)module;
  if (!PyArg_ParseTuple(args, "i", &number)) return NULL;
  return Py_BuildValue("ss", DMI_strerrorname(number), DMI_strerror(number));
}

static PyMethodDef own_functions[] = {
    {"set_error_maker", set_error_maker, METH_O, NULL},
    {"set_package", dmi_py_set_package, METH_O, NULL},
    {"forked", is_forked, METH_NOARGS, NULL},
    {"error_text", error_text, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_dmi",
    .m_doc = "Calls of DMI as they are in C; use the package dmi.",
    .m_size = -1,
    .m_methods = own_functions,
};

PyMODINIT_FUNC PyInit__dmi(void); /* what an import calls */

PyMODINIT_FUNC PyInit__dmi(void) {
  PyMethodDef *functions[] = {dmi_py_memory_functions, dmi_py_program_functions,
                              dmi_py_sync_functions, dmi_py_farm_functions,
                              dmi_py_remote_functions};
  PyObject *module = PyModule_Create(&definition), *buffered = NULL;
  bool good = module != NULL;
  for (size_t i = 0; good && i < sizeof functions / sizeof *functions; i++)
    good = PyModule_AddFunctions(module, functions[i]) == 0;
  if (good) dmi_py_hold_type = PyType_FromSpec(&dmi_py_hold_spec);
  buffered = good ? PyType_FromSpec(&dmi_py_buffered_spec) : NULL;
  good = buffered && dmi_py_hold_type && PyModule_AddObjectRef(module, "Buffered", buffered) == 0 &&
         PyModule_AddStringConstant(module, "version", DMI_VERSION) == 0;
  if (good && pthread_atfork(NULL, NULL, in_child) != 0) {
    PyErr_NoMemory();
    good = false;
  }
  if (good) {
    dmi_py_remote_begin();
    return module;
  }
  Py_XDECREF(module);
  return NULL;
}
