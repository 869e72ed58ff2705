/*
 * where.c - see where.h.
 *
 * libdw is loaded when the first place is needed, so that programs do not depend on it. It reads
 * only the files of this process: no directory of debug information, and no debug server.
 *
 * Failure modes: without libdw, without debug information, or for an address in no file, the text
 * says less.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/where.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"

/* ---- libdw, as elfutils' <elfutils/libdwfl.h> and <elfutils/libdw.h> declare it -------------- */

struct callbacks {
  int (*find_elf)(void);
  int (*find_debuginfo)(void);
  int (*section_address)(void);
  char **debuginfo_path;
};

struct die { /* an entry of debug information */
  void *addr, *cu, *abbrev;
  long padding;
};

struct attribute {
  unsigned code, form;
  void *value, *cu;
};

enum { TAG_INLINED = 0x1d, TAG_FUNCTION = 0x2e, AT_CALL_FILE = 0x58, AT_CALL_LINE = 0x59 };

struct dwfl {
  int (*find_elf)(void); /* only passed on to libdw */
  void *(*begin)(const struct callbacks *callbacks);
  int (*proc_report)(void *dwfl, pid_t pid);
  int (*report_end)(void *dwfl, void *removed, void *arg);
  void *(*addrmodule)(void *dwfl, uint64_t address);
  const char *(*addrname)(void *module, uint64_t address);
  void *(*getsrc)(void *module, uint64_t address);
  const char *(*lineinfo)(void *line, uint64_t *address, int *number, int *column, uint64_t *time,
                          uint64_t *length);
  struct die *(*addrdie)(void *module, uint64_t address, uint64_t *bias);
  int (*getscopes)(struct die *unit, uint64_t address, struct die **scopes);
  int (*getscopes_die)(struct die *die, struct die **scopes);
  int (*tag)(struct die *die);
  const char *(*diename)(struct die *die);
  struct attribute *(*attr)(struct die *die, unsigned name, struct attribute *result);
  int (*formudata)(struct attribute *attribute, uint64_t *number);
  int (*getsrcfiles)(struct die *unit, void **files, size_t *num);
  const char *(*filesrc)(void *files, size_t index, uint64_t *time, uint64_t *length);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static struct dwfl lib;
static bool asked;    /* loading libdw was tried */
static void *session; /* libdw's session for this process; NULL: there is no libdw */

static int no_debuginfo(void) {
  return -1;
}

static bool load(void) {
  static const struct dmi_symbol wanted[] = {
      {"dwfl_linux_proc_find_elf", offsetof(struct dwfl, find_elf)},
      {"dwfl_begin", offsetof(struct dwfl, begin)},
      {"dwfl_linux_proc_report", offsetof(struct dwfl, proc_report)},
      {"dwfl_report_end", offsetof(struct dwfl, report_end)},
      {"dwfl_addrmodule", offsetof(struct dwfl, addrmodule)},
      {"dwfl_module_addrname", offsetof(struct dwfl, addrname)},
      {"dwfl_module_getsrc", offsetof(struct dwfl, getsrc)},
      {"dwfl_lineinfo", offsetof(struct dwfl, lineinfo)},
      {"dwfl_module_addrdie", offsetof(struct dwfl, addrdie)},
      {"dwarf_getscopes", offsetof(struct dwfl, getscopes)},
      {"dwarf_getscopes_die", offsetof(struct dwfl, getscopes_die)},
      {"dwarf_tag", offsetof(struct dwfl, tag)},
      {"dwarf_diename", offsetof(struct dwfl, diename)},
      {"dwarf_attr", offsetof(struct dwfl, attr)},
      {"dwarf_formudata", offsetof(struct dwfl, formudata)},
      {"dwarf_getsrcfiles", offsetof(struct dwfl, getsrcfiles)},
      {"dwarf_filesrc", offsetof(struct dwfl, filesrc)},
  };
  return dmi_library_load("libdw.so.1", &lib, wanted, sizeof wanted / sizeof *wanted);
}

static void ask(void) {
  static struct callbacks callbacks;
  if (asked) return;
  asked = true;
  if (!load()) return;
  callbacks = (struct callbacks){lib.find_elf, no_debuginfo, NULL, NULL};
  session = lib.begin(&callbacks);
  if (session &&
      (lib.proc_report(session, getpid()) != 0 || lib.report_end(session, NULL, NULL) != 0)) {
    session = NULL;
  }
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* The file that an address was loaded from. */
struct file {
  uint64_t address, offset; /* the address as the file has it */
  const char *name;
  uint64_t library; /* where it was loaded; 0: it is the program's own */
  bool found;
};

static int visit(struct dl_phdr_info *info, size_t size, void *arg) {
  struct file *file = arg;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type != PT_LOAD ||
        file->address - start >= info->dlpi_phdr[i].p_memsz) {
      continue;
    }
    file->offset = file->address - info->dlpi_addr;
    file->library = info->dlpi_name && *info->dlpi_name ? info->dlpi_addr : 0;
    file->name = file->library ? info->dlpi_name : program_invocation_name;
    file->found = true;
    return 1;
  }
  return 0;
}

bool dmi_where_same_library(const void *one, const void *other) {
  struct file a = {.address = (uint64_t)(uintptr_t)one - 1};
  struct file b = {.address = (uint64_t)(uintptr_t)other - 1};
  (void)dl_iterate_phdr(visit, &a);
  (void)dl_iterate_phdr(visit, &b);
  return a.library && a.library == b.library;
}

/* The name of a function as its source has it, for free(); NULL: no other than this.  The runtime
 * of C++ has it, in programs that have parts in C++. */
extern char *__cxa_demangle(const char *name, char *buf, size_t *size, int *status)
    __attribute__((weak));

static char *name_in_source(const char *name) {
  int status;
  return name && __cxa_demangle ? __cxa_demangle(name, NULL, NULL, &status) : NULL;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t capacity,
                                                      const char *format, ...) {
  const size_t length = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + length, capacity - length, format, args);
  va_end(args);
}

/* 0: not known. */
static uint64_t number_of(struct die *die, unsigned name) {
  struct attribute attribute;
  uint64_t number;
  return lib.attr(die, name, &attribute) && lib.formudata(&attribute, &number) == 0 ? number : 0;
}

/* The source and line from which this inlined function is called.  NULL: not known. */
static const char *call_of(struct die *unit, struct die *inlined, int *line) {
  const uint64_t file = number_of(inlined, AT_CALL_FILE);
  void *files;
  *line = (int)number_of(inlined, AT_CALL_LINE);
  return *line && lib.getsrcfiles(unit, &files, NULL) == 0 ? lib.filesrc(files, file, NULL, NULL)
                                                           : NULL;
}

/* Where this inlined function is called: " at prog.c:42", if that is known. */
static void add_call(char *text, size_t capacity, struct die *unit, struct die *inlined) {
  int line;
  const char *path = call_of(unit, inlined, &line);
  if (path) add(text, capacity, " at %s:%d", base_name(path), line);
}

/* The entries that an address lies in, from the innermost one to its function.  0: not known; else
 * *all is to be freed. */
static int find_scopes(struct die *unit, uint64_t address, struct die **all) {
  struct die *scopes = NULL, innermost;
  if (!unit || lib.getscopes(unit, address, &scopes) <= 0) return 0;
  innermost = scopes[0];
  free(scopes);
  *all = NULL;
  return lib.getscopes_die(&innermost, all);
}

/* A header of dmi.hpp: .../dmi/memory.hpp. */
static bool is_own(const char *path) {
  const char *name = base_name(path);
  const size_t length = strlen(name);
  return name - path >= 4 && memcmp(name - 4, "dmi/", 4) == 0 && length > 4 &&
         strcmp(name + length - 4, ".hpp") == 0;
}

/* A header of the runtime of C++. */
static bool is_standard(const char *path) {
  return strstr(path, "/include/c++/") != NULL;
}

/* The functions around an address, from the innermost one. */
struct around {
  struct die *unit, *all; /* `all` is to be freed */
  int num, first;         /* of `all`; the first to be told */
};

/* Functions of dmi.hpp are passed over, and those of the runtime of C++ that call them (as of
 * std::lock_guard), if it is known who calls them: *source and *number become those of the call. */
static void pass_own(struct around *around, const char **source, int *number) {
  const char *path = *source;
  int line = *number;
  if (!is_own(path)) return;
  for (int i = 0; i < around->num; i++) {
    const int tag = lib.tag(&around->all[i]);
    if (tag == TAG_FUNCTION) return;
    if (tag != TAG_INLINED) continue;
    path = call_of(around->unit, &around->all[i], &line);
    if (!path) return;
    if (is_own(path) || is_standard(path)) continue;
    around->first = i + 1;
    *source = path;
    *number = line;
    return;
  }
}

/* With the lock held: "put, inlined in fill at prog.c:42", or only the name of the function. Those
 * of dmi.hpp that call it are left out. */
static void add_functions(char *text, size_t capacity, const struct around *around,
                          const char *function) {
  static const char *const between[] = {"", ", inlined in ", ", in "};
  struct die *inlined = NULL;
  uint32_t depth = 0;
  for (int i = around->first; i < around->num; i++) {
    struct die *die = &around->all[i];
    const int tag = lib.tag(die);
    const char *name = lib.diename(die), *path;
    int line;
    if (tag != TAG_INLINED && tag != TAG_FUNCTION) continue;
    path = depth ? call_of(around->unit, inlined, &line) : NULL;
    if (path && is_own(path)) break;
    add(text, capacity, "%s%.100s", between[depth < 2 ? depth : 2], name ? name : function);
    if (depth++) add_call(text, capacity, around->unit, inlined);
    inlined = die;
    if (tag == TAG_FUNCTION) break;
  }
  if (!depth) add(text, capacity, "%.100s", function);
}

/* Compilers name a part of a function as it and more: "DMI_thread.cold". */
static bool is_among(const char *name, const char *const *names) {
  const size_t length = strcspn(name, ".");
  while (*names && (strncmp(name, *names, length) != 0 || (*names)[length] != 0))
    names++;
  return *names != NULL;
}

/* What a function of this name is: the first ones are those that programs define. */
static enum dmi_where_role role_of(const char *name) {
  static const char *const first[] = {"DMI_main", "DMI_thread",    "DMI_function",  "DMI_recover",
                                      "DMI_init", "DMI_farm_task", "DMI_scaleunit", NULL};
  static const char *const below[] = {"dmi_runtime_main", "dmi_farm_thread", "dmi_scale_thread",
                                      NULL};
  if (is_among(name, first)) return DMI_WHERE_FIRST;
  if (is_among(name, below) || strncmp(name, "dmi_cxx_", strlen("dmi_cxx_")) == 0)
    return DMI_WHERE_BELOW;
  return DMI_WHERE_PLAIN;
}

/* With the lock held. False: the line is not known; *function is set even then. */
static bool by_line(char *text, size_t capacity, uint64_t address,
                    struct dmi_where_function *function) {
  void *module, *line;
  const char *source = NULL;
  struct around around = {0};
  uint64_t bias = 0;
  char *plain;
  int number = 0;
  *function = (struct dmi_where_function){NULL, DMI_WHERE_PLAIN};
  ask();
  module = session ? lib.addrmodule(session, address) : NULL;
  if (!module) return false;
  function->name = lib.addrname(module, address);
  if (function->name) function->role = role_of(function->name);
  line = lib.getsrc(module, address);
  if (line) source = lib.lineinfo(line, NULL, &number, NULL, NULL, NULL);
  if (!source) return false;
  around.unit = lib.addrdie(module, address, &bias);
  around.num = find_scopes(around.unit, address - bias, &around.all);
  pass_own(&around, &source, &number);
  if (is_own(source) && function->role == DMI_WHERE_PLAIN) function->role = DMI_WHERE_OWN;
  snprintf(text, capacity, "%s:%d", base_name(source), number);
  if (function->name) {
    plain = name_in_source(function->name);
    add(text, capacity, " (");
    add_functions(text, capacity, &around, plain ? plain : function->name);
    add(text, capacity, ")");
    free(plain);
  }
  if (around.num > 0) free(around.all);
  return true;
}

/* ---- Places without an address --------------------------------------------------------------- */

static char *_Atomic places[DMI_WHERE_PLACES]; /* their addresses stand for return addresses */
static _Atomic uint32_t places_num;

const void *dmi_where_place(const char *text) {
  char *copy = strndup(text, DMI_WHERE_SIZE - 1);
  uint32_t at = copy ? atomic_load(&places_num) : DMI_WHERE_PLACES;
  while (at < DMI_WHERE_PLACES && !atomic_compare_exchange_weak(&places_num, &at, at + 1)) {
  }
  if (at >= DMI_WHERE_PLACES) {
    free(copy);
    return NULL;
  }
  atomic_store(&places[at], copy);
  return &places[at];
}

/* NULL: it is a return address. */
static const char *text_of(const void *caller) {
  const uintptr_t off = (uintptr_t)caller - (uintptr_t)places;
  return off < sizeof(places) ? atomic_load(&places[off / sizeof(places[0])]) : NULL;
}

bool dmi_where_plain(char *text, size_t capacity, const void *caller,
                     struct dmi_where_function *function) {
  /* The call is just before its return address. */
  struct file file = {.address = (uint64_t)(uintptr_t)caller - 1};
  struct dmi_where_function of = {NULL, DMI_WHERE_PLAIN};
  const char *known = text_of(caller);
  bool found;
  if (known) {
    snprintf(text, capacity, "%s", known);
    if (function) *function = of;
    return true;
  }
  pthread_mutex_lock(&lock);
  found = by_line(text, capacity, file.address, &of);
  if (!found) {
    if (!dl_iterate_phdr(visit, &file)) {
      file.name = "?";
      file.offset = file.address;
    }
    char *plain = name_in_source(of.name);
    snprintf(text, capacity, "%.150s+0x%llx%s%.100s", file.name, (unsigned long long)file.offset,
             of.name ? " in " : "",
             plain     ? plain
             : of.name ? of.name
                       : "");
    free(plain);
  }
  pthread_mutex_unlock(&lock);
  if (function) *function = of;
  return found;
}

bool dmi_where_names(void) {
  bool names;
  pthread_mutex_lock(&lock);
  ask();
  names = session != NULL;
  pthread_mutex_unlock(&lock);
  return names;
}

/* Compiled anew while it runs: the file that has its lines is gone. */
static bool is_replaced(void) {
  static const char gone[] = " (deleted)";
  char path[4096 + sizeof(gone)];
  const ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
  const size_t end = sizeof(gone) - 1;
  return len > (ssize_t)end && memcmp(path + len - end, gone, end) == 0;
}

const char *dmi_where_missing(void) {
  if (!dmi_where_names()) return "install libdw1 for the lines";
  return is_replaced() ? "no lines, as the program's file was replaced after it began"
                       : "compile with -g for the lines";
}

void dmi_where(char *text, size_t capacity, const void *caller) {
  size_t len;
  if (dmi_where_plain(text, capacity, caller, NULL)) return;
  len = strlen(text);
  snprintf(text + len, capacity - len, " (%s)", dmi_where_missing());
}
