/*
 * report_why.c - why a call of the API has failed, in one sentence (report.h).
 *
 * The reason was noted where the error was found (dmi_because), or is derived here from the error,
 * the call, its arguments, and the bytes that are at the address now.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/mapping.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/where.h"
#include "core/heap.h"
#include "core/syncop.h"
#include "node/pager.h"
#include "node/report_int.h"
#include "node/runtime.h"

#define TEXT DMI_REPORT_TEXT

static bool is_call(const struct dmi_report *report, const char *part) {
  return strstr(report->call, part) != NULL;
}

/* "the mapping at 0x100000000 (3 pages of 100 bytes)" */
static int put_sizes(char *text, size_t capacity, uint64_t base, uint64_t page_num,
                     uint64_t page_size) {
  return snprintf(text, capacity,
                  "the mapping at 0x%" PRIx64 " (%" PRIu64 " page%s of %" PRIu64 " byte%s)", base,
                  page_num, page_num == 1 ? "" : "s", page_size, page_size == 1 ? "" : "s");
}

static int put_mapping(char *text, size_t capacity, const struct dmi_mapping *mapping) {
  return put_sizes(text, capacity, mapping->map.base, mapping->map.page_num,
                   mapping->map.page_size);
}

/* Why an address inside of a mapping is wrong: no mapping, or no object, begins there. */
static void inside(char *text, const struct dmi_report *report, const struct dmi_mapping *in) {
  char where[TEXT / 2];
  uint64_t behind = (uint64_t)report->addr - in->map.base;
  put_mapping(where, sizeof(where), in);
  if (is_call(report, "free") || is_call(report, "realloc")) {
    snprintf(text, TEXT, "no object of DMI_malloc begins there, in %s", where);
  } else if (is_call(report, "munmap") && in->map.tag != DMI_TAG_USER) {
    snprintf(text, TEXT, "it belongs to DMI_malloc; free it with DMI_free: %s", where);
  } else if (is_call(report, "munmap")) {
    snprintf(text, TEXT, "it is %" PRIu64 " bytes after the start of %s: pass the start", behind,
             where);
  } else {
    snprintf(text, TEXT, "%s was unmapped meanwhile", where);
  }
}

/* True if the address is so far below all mappings that it is no global address of this program,
 * not even with a wrong offset. */
static bool is_foreign(uint64_t addr) {
  return addr < DMI_FIRST_BASE - (1 << 20);
}

/* Tells how far the address is from the nearest mapping. */
static void outside(char *text, uint64_t addr, const struct dmi_mapping *below,
                    const struct dmi_mapping *above) {
  char where[TEXT / 2];
  if (is_foreign(addr)) {
    snprintf(text, TEXT,
             "addresses of DMI begin at 0x%" PRIx64
             ": is it a C pointer, or a variable that was never set?",
             DMI_FIRST_BASE);
  } else if (above && (!below || above->map.base - addr < addr - below->end)) {
    put_mapping(where, sizeof(where), above);
    snprintf(text, TEXT,
             "it is %" PRIu64 " bytes before %s, the nearest one that this process knows",
             above->map.base - addr, where);
  } else if (below) {
    put_mapping(where, sizeof(where), below);
    snprintf(text, TEXT,
             "it is %" PRIu64
             " bytes beyond the end of %s, the nearest one that this process knows",
             addr - below->end, where);
  } else {
    snprintf(text, TEXT, "it is in no mapping, and this process knows of none");
  }
}

/* As dmi_space_near, without references. */
static void near(uint64_t addr, const struct dmi_mapping **below,
                 const struct dmi_mapping **above) {
  const struct dmi_access *access = dmi_runtime_access();
  *below = *above = NULL;
  if (access) dmi_space_near(&access->space, addr, below, above);
}

/* The name of the memory of this process with this address, as /proc has it, in a buffer for free;
 * "" has none.  NULL: there is none. */
static char *own_memory(uint64_t addr) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char *line = NULL, *name = NULL, *gone;
  size_t capacity = 0;
  uint64_t start, end;
  int at;
  while (maps && !name && getline(&line, &capacity, maps) > 0) {
    at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &start, &end, &at) != 2 || !at ||
        addr - start >= end - start)
      continue;
    line[strcspn(line, "\n")] = 0;
    gone = strstr(line + at, " (deleted)"); /* compiled again since it runs */
    if (gone) *gone = 0;
    name = strdup(line + at);
  }
  free(line);
  if (maps) fclose(maps);
  return name;
}

/* Between these addresses there are no variables, but the tables of sanitizers, beside mappings. */
static bool may_be_pointer(uint64_t addr) {
  return addr < DMI_FIRST_BASE || addr >= UINT64_C(1) << 46;
}

/* The reason, if the program has memory of its own there; else the text stays. */
static void is_pointer(char *text, uint64_t addr) {
  char *name = may_be_pointer(addr) ? own_memory(addr) : NULL;
  const char *slash = name ? strrchr(name, '/') : NULL, *to = "";
  if (!name) return;
  if (strcmp(name, "[heap]") == 0)
    to = ", to memory of malloc";
  else if (strcmp(name, "[stack]") == 0)
    to = ", to the stack";
  snprintf(text, TEXT,
           "it is a pointer of C%s%s%.100s; global addresses come from DMI_mmap and DMI_malloc", to,
           slash ? ", into " : "", slash ? slash + 1 : "");
  free(name);
}

/* The reason, if a mapping was there; else the text stays. */
static void was_unmapped(char *text, uint64_t addr) {
  struct dmi_access *access = dmi_runtime_access();
  struct dmi_unmapped gone;
  char where[TEXT / 4], place[DMI_WHERE_SIZE];
  if (!access || !dmi_space_unmapped(&access->space, addr, &gone)) return;
  put_sizes(where, sizeof(where), gone.base, gone.page_num, gone.page_size);
  if (!gone.by.thread[0]) {
    snprintf(text, TEXT, "%s was unmapped by another process", where);
  } else if (!gone.by.call.name) {
    snprintf(text, TEXT, "%s was unmapped", where);
  } else {
    dmi_where(place, sizeof(place), gone.by.call.caller);
    snprintf(text, TEXT, "%s was unmapped by %s at %.300s, in %s", where, gone.by.call.name, place,
             gone.by.thread);
  }
}

static void about_address(char *text, const struct dmi_report *report) {
  const struct dmi_mapping *below, *above;
  uint64_t addr = (uint64_t)report->addr;
  bool is_inside;
  if (report->size == DMI_REPORT_NOTHING) {
    snprintf(text, TEXT, "memory that it uses was unmapped meanwhile");
  } else if (report->addr == DMI_NULL) {
    snprintf(text, TEXT, "the address is DMI_NULL");
  } else if (report->addr < 0 || addr >= DMI_SYSTEM_BASE) {
    snprintf(text, TEXT, "DMI never gives out such an address");
  } else {
    dmi_epoch_enter();
    near(addr, &below, &above);
    if (above && above->map.base >= DMI_SYSTEM_BASE) above = NULL;
    is_inside = below && addr < below->end;
    if (is_inside)
      inside(text, report, below);
    else
      outside(text, addr, below, above);
    dmi_epoch_leave();
    if (!is_inside) {
      is_pointer(text, addr);
      was_unmapped(text, addr);
    }
  }
}

/* Tells whether the range leaves the mapping, or only the page. */
static void about_range(char *text, const struct dmi_report *report) {
  const struct dmi_mapping *in, *above;
  uint64_t addr = (uint64_t)report->addr, size = (uint64_t)report->size, off, index, beyond;
  char where[TEXT / 2];
  snprintf(text, TEXT, "%s", dmi_error_text(DMI_ERANGE));
  if (report->size < 0) return;
  dmi_epoch_enter();
  near(addr, &in, &above);
  if (in && addr < in->end) {
    put_mapping(where, sizeof(where), in);
    index = dmi_mapping_index(in, addr, &off);
    if (size > in->end - addr) {
      beyond = size - (in->end - addr);
      snprintf(text, TEXT, "%" PRIu64 " of the %" PRIu64 " bytes %s beyond the end of %s", beyond,
               size, beyond == 1 ? "is" : "are", where);
    } else if (size > in->map.page_size - off) {
      beyond = size - (in->map.page_size - off);
      snprintf(text, TEXT,
               "%" PRIu64 " of the %" PRIu64 " bytes %s beyond the end of the page, number %" PRIu64
               " of %s: they must lie in one",
               beyond, size, beyond == 1 ? "is" : "are", index, where);
    }
  }
  dmi_epoch_leave();
}

/* Reads bytes of global memory for a reason; false: it cannot.  The error of the call stays. */
static bool look(int64_t addr, void *bytes, int64_t size) {
  int32_t error = dmi_error_last();
  struct dmi_process *process = dmi_runtime_usable();
  bool good = process && dmi_access_read(&process->access, addr, size, bytes, DMI_GET_READ, NULL);
  (void)dmi_error_reason(dmi_error_last());
  (void)dmi_fail(error);
  return good;
}

static bool only_reads(const struct dmi_report *report) {
  return is_call(report, "read") && !is_call(report, "thread");
}

/* Is the page lost, or only the answer? */
static void about_lost(char *text, const struct dmi_report *report) {
  char byte;
  if (is_call(report, "create") || is_call(report, "wake") || report->size == DMI_REPORT_ID) {
    snprintf(text, TEXT,
             "that process was lost before it answered: whether it was done is not known");
  } else if (is_call(report, "join") || is_call(report, "detach")) {
    snprintf(text, TEXT, "the result of that thread was lost with a process");
  } else if (report->addr > 0 && report->size != DMI_REPORT_NOTHING &&
             look(report->addr, &byte, 1)) {
    snprintf(text, TEXT,
             only_reads(report)
                 ? "the process that was asked was lost before it answered: the bytes can be read "
                   "again"
                 : "the answer was lost with a process: whether the bytes were written is not "
                   "known");
  } else {
    snprintf(text, TEXT,
             "the bytes were lost with a process; the page can be used when all of it is written "
             "(DMI_revive)");
  }
}

static void about_memory(char *text, const struct dmi_report *report) {
  const uint64_t mib = 1 << 20;
  const struct dmi_process *process = dmi_runtime_process();
  struct dmi_pager_counts counts = {0};
  if (is_call(report, "create")) {
    snprintf(text, TEXT, "the system of process %" PRId64 " allows no more threads (ulimit -u)",
             report->addr);
    return;
  }
  if (is_call(report, "goodbye")) {
    snprintf(text, TEXT,
             "the other processes have no memory for the pages of process %" PRId64
             "; its DMI_CLOSE comes again when there may be memory",
             report->addr);
    return;
  }
  if (process) dmi_pager_counts(process->pager, &counts);
  snprintf(text, TEXT,
           "no memory for a page: this process uses %" PRIu64 " of the %" PRIu64
           " MiB that it lends (dmirun -s%s and no other process has any",
           counts.used / mib, counts.limit / mib,
           process && process->config.spill_dir ? "), its file of --spill could not take it,"
                                                : "; --spill adds a file),");
}

/* What the bytes at an address are. */
static const char *object_at(const unsigned char *bytes, int64_t size) {
  static const unsigned char zeros[sizeof(struct dmi_round)];
  struct dmi_locked_by holder;
  struct dmi_tickets tickets;
  struct dmi_round round;
  if (memcmp(bytes, zeros, (size_t)size) == 0) return NULL; /* changed meanwhile: they are good */
  memcpy(&holder, bytes, sizeof(holder));
  memcpy(&tickets, bytes, sizeof(tickets));
  memset(&round, 0, sizeof(round));
  memcpy(&round, bytes, (size_t)size);
  if (dmi_locked_by_valid(&holder)) return "a mutex or spin lock that is held";
  if (dmi_tickets_valid(&tickets)) return "a condition";
  return size == (int64_t)sizeof(round) && dmi_round_valid(&round) ? "a barrier" : NULL;
}

/* "DMI_mutex_init makes a mutex; there are the bytes 01 00 ..." */
static void not_object(char *text, const struct dmi_report *report, const char *name,
                       const char *init) {
  unsigned char bytes[sizeof(struct dmi_round)] = {0};
  const int64_t size = is_call(report, "barrier") ? (int64_t)sizeof(bytes) : 16;
  const char *other;
  int len = snprintf(text, TEXT, "there is no %s (%s makes one)", name, init);
  if (report->addr <= 0 || !look(report->addr, bytes, size)) return;
  other = object_at(bytes, size);
  if (other) {
    snprintf(text + len, (size_t)(TEXT - len), ", but %s", other);
    return;
  }
  len += snprintf(text + len, (size_t)(TEXT - len), ": its bytes are");
  for (int64_t i = 0; i < size; i++)
    len += snprintf(text + len, (size_t)(TEXT - len), "%s%02x", i % 8 ? "" : " ", bytes[i]);
}

/* The bytes are not the object that the call takes. */
static void about_object(char *text, const struct dmi_report *report) {
  static const struct {
    const char *part, *name, *init;
  } kinds[] = {{"DMI_mutex", "mutex", "DMI_mutex_init"},
               {"DMI_spin", "spin lock", "DMI_spin_init"},
               {"DMI_cond", "condition", "DMI_cond_init"},
               {"barrier", "barrier", "DMI_barrier_init"},
               {"idpool", "pool of numbers", "DMI_idpool_init"}};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (!is_call(report, kinds[i].part)) continue;
    not_object(text, report, kinds[i].name, kinds[i].init);
    return;
  }
  snprintf(text, TEXT, "%s", dmi_error_text(DMI_EINVAL));
}

/* The calling thread is to unlock what it does not hold: who does?  Which process that is only the
 * daemon could name. */
static const char *about_holder(const struct dmi_report *report) {
  struct dmi_locked_by lock;
  if (report->addr <= 0 || !look(report->addr, &lock, sizeof(lock)) || !dmi_locked_by_valid(&lock))
    return "the calling thread does not hold it";
  if (!lock.uid)
    return "nobody holds it: it was unlocked already, or initialised again, or never locked";
  return lock.uid == dmi_runtime_process()->access.core.self
             ? "the calling thread does not hold it, but another one of this process"
             : "the calling thread does not hold it, but one of another process (dmirun --threads "
               "names it)";
}

static const char *about_state(const struct dmi_report *report, int32_t error) {
  switch (error) {
    case DMI_EINACTIVE:
      return dmi_runtime_process() ? "the program is over" : "the program has not begun";
    case DMI_EHOLDER:
      return is_call(report, "_lock")       ? "the calling thread holds it already"
             : is_call(report, "cond_wait") ? "the calling thread does not hold the mutex"
                                            : about_holder(report);
    case DMI_EBUSY:
      return is_call(report, "goodbye")   ? "DMI threads still run in that process"
             : is_call(report, "barrier") ? "threads have arrived there and wait for the others"
             : is_call(report, "cond")    ? "threads wait there"
                                          : "a thread holds it";
    case DMI_ENOFUNC:
      return is_call(report, "create") ? "the program defines no DMI_thread"
                                       : "the program defines no DMI_function";
    case DMI_EMEMBER:
      return "no process has that id now";
    case DMI_ETHREAD:
      return is_call(report, "suspend") || is_call(report, "self")
                 ? "the calling thread was not made by DMI_create"
                 : dmi_error_text(error);
    default:
      return dmi_error_text(error);
  }
}

void dmi_report_why(char *text, const struct dmi_report *report, int32_t error, const char *noted) {
  if (noted) {
    snprintf(text, TEXT, "%s", noted);
  } else if (error == DMI_EADDR) {
    about_address(text, report);
  } else if (error == DMI_ERANGE) {
    about_range(text, report);
  } else if (error == DMI_ENOMEM) {
    about_memory(text, report);
  } else if (error == DMI_ELOST) {
    about_lost(text, report);
  } else if (error == DMI_EINVAL) {
    about_object(text, report);
  } else {
    snprintf(text, TEXT, "%s", about_state(report, error));
  }
}

void dmi_report_where(char *text, const struct dmi_report *report, const char *reason) {
  const struct dmi_mapping *in, *above;
  uint64_t addr = (uint64_t)report->addr, off;
  char where[TEXT / 2];
  *text = 0;
  if (report->addr <= 0 || report->size == DMI_REPORT_NOTHING || report->size == DMI_REPORT_ID ||
      strstr(reason, "the mapping at"))
    return;
  dmi_epoch_enter();
  near(addr, &in, &above);
  if (in && addr < in->end) {
    put_mapping(where, sizeof(where), in);
    snprintf(text, TEXT, " [page %" PRIu64 " of %s]", dmi_mapping_index(in, addr, &off), where);
  }
  dmi_epoch_leave();
}
