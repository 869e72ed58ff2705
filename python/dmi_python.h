/*
 * dmi_python.h - what the files of the extension module _dmi share.
 *
 * The module is a thin layer: it converts arguments, gives the interpreter's lock away in each call
 * that may wait, and raises an exception for each call that fails.  What is convenient is written
 * in Python (python/dmi).  It uses the stable interface of Python only, so it runs in any later
 * one.
 */
#ifndef DMI_PYTHON_H
#define DMI_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "dmi_api.h"
#include "dmi_ext.h"
#include "node/program.h"

/* ---- module.c ---- */

/* True if this process may call DMI.  False: it was forked from one of the program, and the
 * exception is set. */
bool dmi_py_here(void);

/* Sets the exception for DMI_errno() of this thread, unless one is set.  Returns false. */
bool dmi_py_fail(void);

/* Makes a call that may wait, without the lock.  True if it succeeded; else the exception is set.
 */
#define CALL(call)                                 \
  __extension__({                                  \
    int32_t ret_ = DMI_FALSE;                      \
    if (dmi_py_here()) {                           \
      dmi_py_at();                                 \
      PyThreadState *state_ = PyEval_SaveThread(); \
      ret_ = (call);                               \
      PyEval_RestoreThread(state_);                \
      dmi_py_done();                               \
    }                                              \
    ret_ == DMI_TRUE || dmi_py_fail();             \
  })

/* What a function without a result returns. */
#define NONE_IF(good) ((good) ? Py_NewRef(Py_None) : NULL)

/* The number that `object` is.  False: it is none, or too large, and the exception is set. */
bool dmi_py_int64(PyObject *object, int64_t *value);

/* Adds the functions of a file to the module. */
extern PyMethodDef dmi_py_memory_functions[], dmi_py_program_functions[], dmi_py_sync_functions[],
    dmi_py_farm_functions[], dmi_py_remote_functions[];

/* ---- place.c: with the interpreter's lock ---- */

extern struct dmi_program_language dmi_py_language; /* filled when the program begins */
void dmi_py_at(void);   /* the calls that come are from this line of Python */
void dmi_py_done(void); /* up to here */
/* set_package(directory of the package dmi): lines of it are not shown, but those that call it. */
PyObject *dmi_py_set_package(PyObject *module, PyObject *directory);

/* ---- memory.c ---- */

/* The type of bytes that are held, and the base of those that have a buffer by a method. */
extern PyType_Spec dmi_py_hold_spec, dmi_py_buffered_spec;
extern PyObject *dmi_py_hold_type;

/* ---- program.c: what the library calls, and what is then called in Python ---- */

struct dmi_py_callbacks {
  PyObject *main, *thread, *recover, *task, *remote;
};
extern struct dmi_py_callbacks dmi_py_callbacks;

/* ---- farm.c, remote.c: bodies that the library runs ---- */
int32_t dmi_py_task(int64_t task, void *out, int64_t size, const void *job);
void dmi_py_remote_begin(void); /* registers the one remote function that there is */

#endif
