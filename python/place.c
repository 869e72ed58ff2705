/*
 * place.c - from which line of Python a call of DMI comes, for those who look at the program, and
 * for lines about calls that fail: the library takes it for the place that the call returns to.
 *
 * All is done with the interpreter's lock, which guards the tables below.  Code is kept for ever,
 * so that no other has its address; there are bounds, and what comes above them is shown as the
 * line of this module in C.
 */
#include <stdlib.h>
#include <string.h>

#include "dmi_python.h"

#define CODES 4096   /* functions that call DMI; a power of two, of which three quarters are used */
#define PLACES 32768 /* the same for their lines */
#define FRAMES 64    /* of the package dmi, one above the other, that are looked through */
#define TEXT 300

struct dmi_program_language dmi_py_language;

static struct code {
  PyCodeObject *code; /* kept; NULL: unused */
  bool own;           /* of the package dmi */
} codes[CODES];
static uint32_t codes_num;

static struct line {
  const struct code *code; /* NULL: unused */
  int number;
  const void *place; /* of the library; NULL: it has no room */
} lines[PLACES];
static uint32_t lines_num;

static char *package; /* its directory */
static PyObject *back_name;

PyObject *dmi_py_set_package(PyObject *module, PyObject *directory) {
  const char *path = PyUnicode_AsUTF8AndSize(directory, NULL);
  (void)module;
  if (!path) return NULL;
  free(package);
  package = strdup(path);
  if (!package) return PyErr_NoMemory();
  if (!back_name) back_name = PyUnicode_InternFromString("f_back");
  return NONE_IF(back_name);
}

static uint32_t hash(uintptr_t number) {
  return (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* An attribute that is a text, as it is; "": it has none. */
static void text_of(char *text, size_t size, PyCodeObject *code, const char *name) {
  PyObject *value = PyObject_GetAttrString((PyObject *)code, name);
  const char *utf8 = value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
  PyOS_snprintf(text, size, "%s", utf8 ? utf8 : "");
  Py_XDECREF(value);
  PyErr_Clear();
}

static bool is_own(PyCodeObject *code) {
  char path[4096];
  const size_t length = strlen(package);
  text_of(path, sizeof path, code, "co_filename");
  return strncmp(path, package, length) == 0 && path[length] == '/';
}

/* NULL: there are too many. */
static const struct code *find_code(PyCodeObject *code) {
  uint32_t at = hash((uintptr_t)code) % CODES;
  while (codes[at].code && codes[at].code != code)
    at = (at + 1) % CODES;
  if (codes[at].code) return &codes[at];
  if (codes_num == CODES / 4 * 3) return NULL;
  codes_num++;
  codes[at] = (struct code){(PyCodeObject *)Py_NewRef((PyObject *)code), is_own(code)};
  return &codes[at];
}

/* "prog.py:42 (main)" */
static const void *new_place(const struct code *code, int number) {
  char text[TEXT], path[4096], name[100];
  const char *slash;
  text_of(path, sizeof path, code->code, "co_filename");
  text_of(name, sizeof name, code->code, "co_name");
  slash = strrchr(path, '/');
  PyOS_snprintf(text, sizeof text, "%.150s:%d (%s)", slash ? slash + 1 : path, number, name);
  return dmi_py_language.place(text);
}

static const void *find_place(const struct code *code, int number) {
  uint32_t at = hash((uintptr_t)code + (uintptr_t)number * 0x10001) % PLACES;
  while (lines[at].code && (lines[at].code != code || lines[at].number != number))
    at = (at + 1) % PLACES;
  if (lines[at].code) return lines[at].place;
  if (lines_num == PLACES / 4 * 3) return NULL;
  lines_num++;
  lines[at] = (struct line){code, number, new_place(code, number)};
  return lines[at].place;
}

/* The innermost frame outside of the package; if there is none, the innermost one.  A reference;
 * NULL: not known. */
static PyFrameObject *user_frame(const struct code **of) {
  PyFrameObject *frame = PyEval_GetFrame(), *innermost = frame;
  const struct code *code = NULL, *first = NULL;
  Py_XINCREF((PyObject *)frame);
  for (int i = 0; frame && i < FRAMES; i++) {
    PyCodeObject *its = PyFrame_GetCode(frame);
    PyObject *back;
    code = find_code(its);
    Py_DECREF((PyObject *)its);
    if (i == 0) first = code;
    if (!code || !code->own) break;
    back = PyObject_GetAttr((PyObject *)frame, back_name);
    Py_DECREF((PyObject *)frame);
    if (!back) PyErr_Clear();
    if (back == Py_None) Py_CLEAR(back);
    frame = (PyFrameObject *)back;
  }
  if (!frame && innermost) {
    frame = (PyFrameObject *)Py_NewRef((PyObject *)innermost);
    code = first;
  }
  *of = code;
  return frame;
}

void dmi_py_at(void) {
  const struct code *code = NULL;
  PyFrameObject *frame;
  const void *place = NULL;
  if (!dmi_py_language.at || !package) return;
  frame = user_frame(&code);
  if (frame && code) place = find_place(code, PyFrame_GetLineNumber(frame));
  Py_XDECREF((PyObject *)frame);
  dmi_py_language.at(place);
}

void dmi_py_done(void) {
  if (dmi_py_language.at) dmi_py_language.at(NULL);
}
