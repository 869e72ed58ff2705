/*
 * see_look.c - what can be seen of this process by any thread: its threads, the locks that they
 * hold, the barriers that they use.  One line of JSON each (docs/seeing.md).
 *
 * Nothing is stopped meanwhile, so lines of one answer may be of different moments.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/doing.h"
#include "base/where.h"
#include "node/see_int.h"
#include "sync/barrier.h"
#include "sync/sync.h"

#define SOME \
  32 /* records that are copied at a time, so that no lock is held while lines are made */

void dmi_see_call(struct dmi_json *to, const struct dmi_doing_called *call) {
  char where[DMI_WHERE_SIZE];
  if (!call->name) return;
  dmi_where(where, sizeof(where), call->caller);
  dmi_json_put(to, ",\"call\":\"%s\",\"place\":", call->name);
  dmi_json_text(to, where);
}

/* Lists go downwards by number: what begins meanwhile is above, so each list ends. */

/* ---- Threads --------------------------------------------------------------------------------- */

/* ,"cpu":3,"state":"R", as /proc has them. */
static void put_place(struct dmi_json *to, int tid) {
  char path[64], line[1024], *at;
  char state;
  int cpu;
  FILE *file;
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
  file = fopen(path, "re");
  if (!file) return;
  at = fgets(line, sizeof(line), file);
  fclose(file);
  /* The name, in parentheses, may contain anything. */
  if (!at || !(at = strrchr(line, ')')) || sscanf(at + 1, " %c", &state) != 1) return;
  dmi_json_put(to, ",\"state\":\"%c\"", state);
  for (int field = 2; field < 39 && at; field++)
    at = strchr(at + 1, ' ');
  if (at && sscanf(at, " %d", &cpu) == 1) dmi_json_put(to, ",\"cpu\":%d", cpu);
}

const char *dmi_see_wait_name(enum dmi_doing_what what) {
  static const char *const names[DMI_DOING_KINDS] = {
      "nothing",     "page",  "lock",    "cond",    "barrier", "watch",   "status",
      "coordinator", "poll",  "thread",  "process", "suspend", "message", "taken",
      "ranks",       "value", "servers", "tasks",   "scale"};
  return names[what];
}

static void put_wait(struct dmi_process *process, const struct dmi_doing_state *state,
                     struct dmi_json *to) {
  dmi_json_put(to, ",\"waits\":\"%s\",\"ns\":%" PRId64, dmi_see_wait_name(state->what),
               dmi_clock_ns() - state->since);
  if (state->op) dmi_json_put(to, ",\"op\":\"%" PRIu64 "\"", state->op);
  if (state->what == DMI_DOING_THREAD) {
    dmi_json_put(to, ",\"joins\":{\"member\":%" PRIu64 ",\"number\":%" PRIu64 "}", state->addr,
                 state->size);
  } else if (state->what >= DMI_DOING_MESSAGE && state->what <= DMI_DOING_RANKS) {
    if (state->addr) dmi_json_put(to, ",\"of\":%" PRIu64, state->addr);
    if (state->size) dmi_json_put(to, ",\"rank\":%" PRIu64, state->size - 1);
  } else if (state->what == DMI_DOING_SERVERS || state->what == DMI_DOING_TASKS) {
    dmi_json_put(to, ",\"there\":%" PRIu64 ",\"wanted\":%" PRIu64, state->addr, state->size);
  } else if (state->what == DMI_DOING_SCALE) {
    dmi_json_put(to, ",\"wanted\":%" PRIu64, state->size);
  } else if (dmi_doing_has_addr(state->what) && state->addr) {
    dmi_json_put(to, ",\"addr\":\"0x%" PRIx64 "\",\"size\":%" PRIu64, state->addr, state->size);
    dmi_see_place(process, state->addr, to);
  }
}

static uint64_t threads(struct dmi_process *process, uint64_t at, struct dmi_json *to) {
  static const char *const who[] = {"other", "main", "dmi"};
  struct dmi_doing_state state[SOME];
  uint64_t below = at ? at : UINT64_MAX;
  uint32_t num;
  while ((num = dmi_doing_look(&process->access.doings, below, state, SOME)) != 0) {
    for (uint32_t i = 0; i < num; i++) {
      size_t before = to->at;
      dmi_json_put(to, "{\"thread\":%" PRIu64 ",\"who\":\"%s\",\"tid\":%d", state[i].number,
                   who[state[i].who], state[i].tid);
      if (state[i].thread) dmi_json_put(to, ",\"number\":%" PRIu64, state[i].thread);
      put_place(to, state[i].tid);
      dmi_see_call(to, &state[i].call);
      if (state[i].what != DMI_DOING_NOTHING) put_wait(process, &state[i], to);
      dmi_json_put(to, "}");
      if (!dmi_see_line(to, before)) return below;
      below = state[i].number;
    }
  }
  return 0;
}

/* ---- Locks and barriers -----------------------------------------------------------------------
 */

static uint64_t locks(struct dmi_process *process, uint64_t at, struct dmi_json *to) {
  struct dmi_sync_held held[SOME];
  uint64_t below = at ? at : UINT64_MAX;
  uint32_t num;
  while ((num = dmi_sync_look(process->sync, below, held, SOME)) != 0) {
    for (uint32_t i = 0; i < num; i++) {
      size_t before = to->at;
      dmi_json_put(to, "{\"lock\":\"0x%" PRIx64 "\",\"thread\":%" PRIu64 ",\"op\":\"%" PRIu64 "\"",
                   (uint64_t)held[i].addr, held[i].doer, held[i].op);
      dmi_see_call(to, &held[i].call);
      dmi_json_put(to, "}");
      if (!dmi_see_line(to, before)) return below;
      below = held[i].serial;
    }
  }
  return 0;
}

static uint64_t barriers(struct dmi_process *process, uint64_t at, struct dmi_json *to) {
  struct dmi_barrier_user user[SOME];
  uint64_t below = at ? at : UINT64_MAX;
  uint32_t num;
  while ((num = dmi_barrier_look(process->barriers, below, user, SOME)) != 0) {
    for (uint32_t i = 0; i < num; i++) {
      size_t before = to->at;
      dmi_json_put(to, "{\"barrier\":\"0x%" PRIx64 "\",\"thread\":%" PRIu64 "}",
                   (uint64_t)user[i].addr, user[i].doer);
      if (!dmi_see_line(to, before)) return below;
      below = user[i].number;
    }
  }
  return 0;
}

uint64_t dmi_see_look(struct dmi_process *process, const struct dmi_msg_see *ask,
                      struct dmi_json *to) {
  switch ((enum dmi_see_what)ask->what) {
    case DMI_SEE_THREADS:
      return threads(process, ask->at, to);
    case DMI_SEE_LOCKS:
      return locks(process, ask->at, to);
    case DMI_SEE_BARRIERS:
      return barriers(process, ask->at, to);
    case DMI_SEE_MAPPINGS:
      return dmi_see_mappings(process, ask->at, to);
    case DMI_SEE_HOT:
      return dmi_see_hot(process, to);
    case DMI_SEE_WAITS:
      return dmi_see_waits(process, to);
    case DMI_SEE_PROFILE:
      return dmi_see_profile(process, ask->at, to);
    default:
      return dmi_see_page(process, ask, to);
  }
}
