/*
 * error.c - error numbers and their sentences.
 */
#include "base/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "dmi_api.h"

enum dmi_on_error dmi_on_error;

static __thread int32_t last;
static __thread struct {
  const char *reason;
  int32_t error;
  char text[100]; /* what `reason` points to, if it was made */
} noted;

int32_t dmi_because(int32_t error, const char *reason) {
  noted.reason = reason;
  noted.error = error;
  return error;
}

int32_t dmi_because_so(int32_t error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(noted.text, sizeof(noted.text), format, args);
  va_end(args);
  return dmi_because(error, noted.text);
}

int32_t dmi_because_of(int32_t error, const char *reason, int64_t value) {
  return dmi_because_so(error, "%s: %" PRId64, reason, value);
}

static const char *const whys[] = {
    [DMI_WHY_WELCOMED] = "that process was welcomed before",
    [DMI_WHY_GOODBYE] = "that process was given a DMI_goodbye before",
    [DMI_WHY_NOT_ASKED] = "that process has not asked to leave",
    [DMI_WHY_NOT_WELCOME] = "that process has not been welcomed yet",
    [DMI_WHY_DISMISSED] = "that process is being dismissed",
    [DMI_WHY_NO_THREAD] = "no such thread is left",
    [DMI_WHY_DETACHED] = "that thread is detached",
    [DMI_WHY_JOINED] = "another thread waits for that thread's end",
    [DMI_WHY_ENDED] = "that thread has ended"};

/* Phrases of dmi_because_kept, numbered behind enum dmi_why.  They stay. */
#define KEPT 256                   /* the number of the first one */
#define LAST 0x7fff                /* a number has 15 bits */
static _Atomic uint32_t kept_lock; /* guards what follows */
static char **kept;
static uint32_t kept_num, kept_capacity;

/* Where it is among them; kept_num: it is none. */
static uint32_t find_kept(const char *phrase) {
  uint32_t at = 0;
  while (at < kept_num && strcmp(kept[at], phrase) != 0)
    at++;
  return at;
}

static void add_kept(const char *phrase) {
  char *copy = strdup(phrase);
  if (copy && kept_num == kept_capacity) {
    uint32_t capacity = 2 * kept_capacity + 16;
    char **more = realloc(kept, capacity * sizeof(*more));
    if (more) {
      kept = more;
      kept_capacity = capacity;
    }
  }
  if (copy && kept_num < kept_capacity)
    kept[kept_num++] = copy;
  else
    free(copy);
}

int32_t dmi_because_kept(int32_t error, const char *phrase) {
  uint32_t at;
  dmi_lock(&kept_lock, DMI_RANK_LEAF);
  at = find_kept(phrase);
  if (at == kept_num && at <= LAST - KEPT) add_kept(phrase);
  if (at < kept_num) error = DMI_WHY(error, at + KEPT);
  dmi_unlock(&kept_lock, DMI_RANK_LEAF);
  return error;
}

/* The phrase of this number; NULL: there is none. */
static const char *phrase_of(uint32_t why) {
  const char *phrase = NULL;
  if (why > 0 && why < sizeof(whys) / sizeof(whys[0])) phrase = whys[why];
  if (why < KEPT) return phrase;
  dmi_lock(&kept_lock, DMI_RANK_LEAF);
  if (why - KEPT < kept_num) phrase = kept[why - KEPT];
  dmi_unlock(&kept_lock, DMI_RANK_LEAF);
  return phrase;
}

int32_t dmi_fail(int32_t error) {
  const char *phrase = phrase_of((uint32_t)error >> 16);
  if (phrase) (void)dmi_because(DMI_WITHOUT_WHY(error), phrase);
  last = DMI_WITHOUT_WHY(error);
  return DMI_FALSE;
}

int32_t dmi_result(int32_t error) {
  return error == DMI_OK ? DMI_TRUE : dmi_fail(error);
}

int32_t dmi_error_of(int32_t ret) {
  return ret == DMI_TRUE ? DMI_OK : last;
}

int32_t dmi_error_last(void) {
  return last;
}

const char *dmi_error_reason(int32_t error) {
  const char *reason = noted.error == error ? noted.reason : NULL;
  noted.reason = NULL;
  return reason;
}

const char *dmi_error_name(int32_t error) {
  static const char *const names[] = {[DMI_OK] = "DMI_OK",
                                      [DMI_EINVAL] = "DMI_EINVAL",
                                      [DMI_EADDR] = "DMI_EADDR",
                                      [DMI_ERANGE] = "DMI_ERANGE",
                                      [DMI_ESIZE] = "DMI_ESIZE",
                                      [DMI_ENOMEM] = "DMI_ENOMEM",
                                      [DMI_EMEMBER] = "DMI_EMEMBER",
                                      [DMI_ENOTASKED] = "DMI_ENOTASKED",
                                      [DMI_EBUSY] = "DMI_EBUSY",
                                      [DMI_ETHREAD] = "DMI_ETHREAD",
                                      [DMI_EINFUNC] = "DMI_EINFUNC",
                                      [DMI_ENOFUNC] = "DMI_ENOFUNC",
                                      [DMI_ELEAVING] = "DMI_ELEAVING",
                                      [DMI_EINACTIVE] = "DMI_EINACTIVE",
                                      [DMI_EHOLDER] = "DMI_EHOLDER",
                                      [DMI_ERWSET] = "DMI_ERWSET",
                                      [DMI_ELOST] = "DMI_ELOST",
                                      [DMI_EOWNERDEAD] = "DMI_EOWNERDEAD",
                                      [DMI_EBROKEN] = "DMI_EBROKEN",
                                      [DMI_EEND] = "DMI_EEND",
                                      [DMI_EREMOTE] = "DMI_EREMOTE",
                                      [DMI_ERESET] = "DMI_ERESET"};
  if (error < 0 || error >= (int32_t)(sizeof(names) / sizeof(names[0]))) return "DMI_E?";
  return names[error];
}

const char *dmi_error_text(int32_t error) {
  switch (error) {
    case DMI_OK:
      return "no error";
    case DMI_EINVAL:
      return "an argument is not allowed here, or the object was not initialised";
    case DMI_EADDR:
      return "the global address is in no mapping, or nothing that is taken begins there";
    case DMI_ERANGE:
      return "the range leaves its mapping, or the page in which it must lie";
    case DMI_ESIZE:
      return "a size or count is not positive, or too large, or larger than the buffer";
    case DMI_ENOMEM:
      return "no process has memory left for pages (dmirun -s, --spill), or the system";
    case DMI_EMEMBER:
      return "no process with this id takes part in the program";
    case DMI_ENOTASKED:
      return "this process has not asked to join or to leave, or was let in already";
    case DMI_EBUSY:
      return "in use: threads run there, hold it or wait for it, or make such a call already";
    case DMI_ETHREAD:
      return "no such thread can be used so: unknown, ended, detached, or no DMI thread";
    case DMI_EINFUNC:
      return "DMI functions cannot be called from inside DMI_function";
    case DMI_ENOFUNC:
      return "the program does not define the function that this call needs";
    case DMI_ELEAVING:
      return "that process, or this one, is leaving or has not been welcomed yet";
    case DMI_EINACTIVE:
      return "the DMI program does not run: it has not begun, or is over";
    case DMI_EHOLDER:
      return "the calling thread does not hold this lock, or locks it a second time";
    case DMI_ERWSET:
      return "wrong read-write-set: an element is written twice, or read and never written";
    case DMI_ELOST:
      return "a process was lost, and what was asked of it, or its bytes, with it";
    case DMI_EOWNERDEAD:
      return "the process that held this lock was lost; the calling thread holds it now";
    case DMI_EBROKEN:
      return "a process was lost: no thread passes this round of the barrier";
    case DMI_EEND:
      return "the program is ending (DMI_exit): nothing is waited for any more";
    case DMI_ERESET:
      return "a rank of the team has called DMI_team_reset: all of them must call it";
    case DMI_EREMOTE:
      return "the remote function or task that should have made this value has failed";
    default:
      return "unknown error number";
  }
}
