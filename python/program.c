/*
 * program.c - the program: its beginning, its processes, its threads.
 *
 * dmi_start, which main() of a program in C calls, is called by run().  The library then calls the
 * functions of struct dmi_program, in threads that it has made: each takes the interpreter's lock,
 * and calls a function of Python, which lets no exception out (python/dmi/_program.py).
 */
#include "dmi_python.h"

#include "api/start.h"

struct dmi_py_callbacks dmi_py_callbacks;

/* ---- What the library calls ---- */

/* The result of a callback as a number; the reference is dropped.  An exception that comes out of
 * it is printed. */
static int64_t number(PyObject *result) {
  int64_t value = 0;
  if (result && result != Py_None) (void)dmi_py_int64(result, &value);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(NULL);
  Py_XDECREF(result);
  return value;
}

static void run_main(int argc, char **argv) {
  PyGILState_STATE lock = PyGILState_Ensure();
  (void)argc;
  (void)argv;
  (void)number(PyObject_CallNoArgs(dmi_py_callbacks.main));
  PyGILState_Release(lock);
}

static int64_t run_thread(int64_t addr) {
  PyGILState_STATE lock = PyGILState_Ensure();
  int64_t value = number(PyObject_CallFunction(dmi_py_callbacks.thread, "L", (long long)addr));
  PyGILState_Release(lock);
  return value;
}

static int32_t run_recover(int argc, char **argv, int32_t lost_id) {
  PyGILState_STATE lock = PyGILState_Ensure();
  int64_t value = number(PyObject_CallFunction(dmi_py_callbacks.recover, "i", (int)lost_id));
  (void)argc;
  (void)argv;
  PyGILState_Release(lock);
  return value ? DMI_TRUE : DMI_FALSE;
}

/* Defined so that a process that joins may have arguments: sys.argv has them. */
static void begin(int argc, char **argv) {
  (void)argc;
  (void)argv;
}

/* ---- The beginning ---- */

/* Borrowed strings of a list, and NULL behind them.  NULL: the exception is set. */
static char **strings(PyObject *list) {
  Py_ssize_t num = PyList_Size(list);
  char **texts = num < 0 ? NULL : PyMem_Calloc((size_t)num + 1, sizeof *texts);
  if (num >= 0 && !texts) PyErr_NoMemory();
  for (Py_ssize_t i = 0; texts && i < num; i++) {
    texts[i] = (char *)(uintptr_t)PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
    if (texts[i]) continue;
    PyMem_Free(texts);
    return NULL;
  }
  return texts;
}

/* run(argv, name, text, main, thread, recover or None, task, remote): the exit status. */
static PyObject *run(PyObject *module, PyObject *args) {
  struct dmi_program_identity identity;
  struct dmi_py_callbacks calls = {0};
  struct dmi_program program = {.main = run_main,
                                .thread = run_thread,
                                .init = begin,
                                .farm_task = dmi_py_task,
                                .identity = &identity,
                                .language = &dmi_py_language,
                                .mark = DMI_PROGRAM_MARK};
  PyObject *list;
  char **argv;
  int status;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!ssOOOOO", &PyList_Type, &list, &identity.name, &identity.text,
                        &calls.main, &calls.thread, &calls.recover, &calls.task, &calls.remote))
    return NULL;
  argv = dmi_py_here() ? strings(list) : NULL;
  if (!argv) return NULL;
  if (calls.recover != Py_None) program.recover = run_recover;
  dmi_py_callbacks = calls;
  Py_BEGIN_ALLOW_THREADS status = dmi_start((int)PyList_Size(list), argv, &program);
  Py_END_ALLOW_THREADS PyMem_Free(argv);
  return PyLong_FromLong(status);
}

/* ---- Processes ---- */

static PyObject *of_node(const DMI_node_t *node) {
  return Py_BuildValue("iiiLsL", (int)node->state, (int)node->dmi_id, (int)node->core,
                       (long long)node->memory, node->hostname, (long long)node->value);
}

static PyObject *poll_notice(PyObject *module, PyObject *none) {
  DMI_node_t node;
  (void)module;
  (void)none;
  return CALL(DMI_poll(&node)) ? of_node(&node) : NULL;
}

/* The notice, or None. */
static PyObject *peek(PyObject *module, PyObject *none) {
  DMI_node_t node;
  int32_t flag = DMI_FALSE;
  (void)module;
  (void)none;
  if (!CALL(DMI_peek(&node, &flag))) return NULL;
  return flag ? of_node(&node) : Py_NewRef(Py_None);
}

/* A function of one int32_t without a result. */
#define WITH_ID(name, call)                                 \
  static PyObject *name(PyObject *module, PyObject *args) { \
    int id;                                                 \
    (void)module;                                           \
    if (!PyArg_ParseTuple(args, "i", &id)) return NULL;     \
    return NONE_IF(CALL(call(id)));                         \
  }
WITH_ID(welcome, DMI_welcome)
WITH_ID(goodbye, DMI_goodbye)
WITH_ID(end_program, DMI_exit)
WITH_ID(survive, DMI_survive)

static PyObject *rank(PyObject *module, PyObject *none) {
  int32_t id;
  (void)module;
  (void)none;
  return CALL(DMI_rank(&id)) ? PyLong_FromLong(id) : NULL;
}

static PyObject *nodes(PyObject *module, PyObject *none) {
  int32_t num = 0, room = 16;
  DMI_node_t *all = NULL;
  PyObject *list = NULL;
  (void)module;
  (void)none;
  do { /* until they are fewer than there is room for */
    DMI_node_t *more = PyMem_Realloc(all, (size_t)(room *= 2) * sizeof *all);
    if (!more) {
      PyMem_Free(all);
      return PyErr_NoMemory();
    }
    all = more;
    if (!CALL(DMI_nodes(all, &num, room))) {
      PyMem_Free(all);
      return NULL;
    }
  } while (num == room);
  list = PyList_New(0);
  for (int32_t i = 0; list && i < num; i++) {
    PyObject *node = of_node(&all[i]);
    if (!node || PyList_Append(list, node) != 0) Py_CLEAR(list);
    Py_XDECREF(node);
  }
  PyMem_Free(all);
  return list;
}

static PyObject *stopping(PyObject *module, PyObject *none) {
  int32_t flag = DMI_FALSE;
  (void)module;
  (void)none;
  if (!dmi_py_here()) return NULL;
  dmi_py_at();
  const bool good = DMI_stopping(&flag);
  dmi_py_done();
  return good || dmi_py_fail() ? PyBool_FromLong(flag) : NULL;
}

static PyObject *notify(PyObject *module, PyObject *args) {
  long long value;
  (void)module;
  if (!PyArg_ParseTuple(args, "L", &value)) return NULL;
  return NONE_IF(CALL(DMI_notify(value)));
}

static PyObject *root_set(PyObject *module, PyObject *args) {
  const char *name;
  long long addr;
  (void)module;
  if (!PyArg_ParseTuple(args, "sL", &name, &addr)) return NULL;
  return NONE_IF(CALL(DMI_root_set(name, addr)));
}

static PyObject *root_get(PyObject *module, PyObject *args) {
  const char *name;
  int64_t addr = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  return CALL(DMI_root_get(name, &addr)) ? PyLong_FromLongLong(addr) : NULL;
}

static PyObject *pool(PyObject *module, PyObject *none) {
  DMI_pool_t p;
  (void)module;
  (void)none;
  if (!CALL(DMI_pool(&p))) return NULL;
  return Py_BuildValue("LLLLLLLLL", (long long)p.limit, (long long)p.used, (long long)p.peak,
                       (long long)p.copies, (long long)p.tables, (long long)p.spilled,
                       (long long)p.pages_sent, (long long)p.pages_taken,
                       (long long)p.pages_dropped);
}

/* ---- Threads: a handle is two numbers ---- */

static PyObject *create(PyObject *module, PyObject *args) {
  int id;
  long long addr;
  DMI_thread_t thread;
  (void)module;
  if (!PyArg_ParseTuple(args, "iL", &id, &addr)) return NULL;
  if (!CALL(DMI_create(&thread, id, addr, NULL))) return NULL;
  return Py_BuildValue("LL", (long long)thread.dmi_private[0], (long long)thread.dmi_private[1]);
}

static bool thread_of(PyObject *args, DMI_thread_t *thread) {
  long long a, b;
  if (!PyArg_ParseTuple(args, "LL", &a, &b)) return false;
  *thread = (DMI_thread_t){{a, b}};
  return true;
}

static PyObject *join(PyObject *module, PyObject *args) {
  DMI_thread_t thread;
  int64_t value = 0;
  (void)module;
  if (!thread_of(args, &thread) || !CALL(DMI_join(thread, &value, NULL))) return NULL;
  return PyLong_FromLongLong(value);
}

static PyObject *detach(PyObject *module, PyObject *args) {
  DMI_thread_t thread;
  (void)module;
  return NONE_IF(thread_of(args, &thread) && CALL(DMI_detach(thread, NULL)));
}

static PyObject *wake(PyObject *module, PyObject *args) {
  DMI_thread_t thread;
  (void)module;
  return NONE_IF(thread_of(args, &thread) && CALL(DMI_wake(thread, NULL)));
}

static PyObject *suspend(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  return NONE_IF(CALL(DMI_suspend()));
}

static PyObject *self(PyObject *module, PyObject *none) {
  DMI_thread_t thread;
  (void)module;
  (void)none;
  if (!CALL(DMI_self(&thread))) return NULL;
  return Py_BuildValue("LL", (long long)thread.dmi_private[0], (long long)thread.dmi_private[1]);
}

PyMethodDef dmi_py_program_functions[] = {
    {"run", run, METH_VARARGS, NULL},
    {"poll", poll_notice, METH_NOARGS, NULL},
    {"peek", peek, METH_NOARGS, NULL},
    {"welcome", welcome, METH_VARARGS, NULL},
    {"goodbye", goodbye, METH_VARARGS, NULL},
    {"exit", end_program, METH_VARARGS, NULL},
    {"survive", survive, METH_VARARGS, NULL},
    {"rank", rank, METH_NOARGS, NULL},
    {"nodes", nodes, METH_NOARGS, NULL},
    {"stopping", stopping, METH_NOARGS, NULL},
    {"notify", notify, METH_VARARGS, NULL},
    {"root_set", root_set, METH_VARARGS, NULL},
    {"root_get", root_get, METH_VARARGS, NULL},
    {"pool", pool, METH_NOARGS, NULL},
    {"create", create, METH_VARARGS, NULL},
    {"join", join, METH_VARARGS, NULL},
    {"detach", detach, METH_VARARGS, NULL},
    {"wake", wake, METH_VARARGS, NULL},
    {"suspend", suspend, METH_NOARGS, NULL},
    {"self", self, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
