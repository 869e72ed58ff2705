/*
 * tracer_take.c - makes pieces of what the threads of this process have recorded: records with
 * numbers instead of addresses, which mean nothing elsewhere.  What a number means is told before
 * it is used for the first time.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "base/where.h"
#include "node/pager.h"
#include "node/see_int.h"
#include "node/tracer_int.h"

/* A text that was told, by its address in this process. */
struct dmi_tracer_known {
  const void *of;
  uint32_t number;
  UT_hash_handle hh;
};

#define WAITS 64 /* threads that are looked at for one piece */

/* While a piece is made. */
struct taking {
  struct dmi_tracer *tracer;
  struct dmi_tracer_piece *piece;
  uint32_t tid; /* of the thread whose records come */
};

static bool put(struct taking *taking, const struct dmi_trace_item *item, const char *text) {
  return dmi_trace_item_put(taking->piece->bytes, sizeof(taking->piece->bytes),
                            &taking->piece->length, item, text);
}

/* With a text; what is too long is cut. */
static bool put_text(struct taking *taking, struct dmi_trace_item *item, const char *text) {
  const size_t length = strlen(text);
  item->text = (uint16_t)(length < DMI_TRACE_TEXT ? length : DMI_TRACE_TEXT);
  return put(taking, item, text);
}

static void forget(struct dmi_tracer_known **all) {
  struct dmi_tracer_known *known, *next;
  HASH_ITER(hh, *all, known, next) {
    HASH_DEL(*all, known);
    free(known);
  }
}

void dmi_tracer_forget(struct dmi_tracer *tracer) {
  forget(&tracer->names);
  forget(&tracer->places);
  tracer->name_num = tracer->place_num = 0;
  tracer->begun = false;
  tracer->sent = tracer->heard = 0;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static struct dmi_tracer_known *find(struct dmi_tracer_known *all, const void *of) {
  struct dmi_tracer_known *known;
  HASH_FIND_PTR(all, &of, known);
  return known;
}

/* Tells it.  0: there is no memory; *fits false: the piece is full. */
static uint32_t tell(struct taking *taking, struct dmi_tracer_known **all, uint32_t *num,
                     const void *of, struct dmi_trace_item *item, const char *text, bool *fits) {
  struct dmi_tracer_known *known = malloc(sizeof(*known));
  if (!known) return 0;
  *fits = put_text(taking, item, text);
  if (!*fits) {
    free(known);
    return 0;
  }
  known->of = of;
  known->number = ++*num;
  HASH_ADD_PTR(*all, of, known);
  return known->number;
}

static uint32_t name_of(struct taking *taking, const char *name, bool *fits) {
  struct dmi_tracer *tracer = taking->tracer;
  const struct dmi_tracer_known *known = find(tracer->names, name);
  struct dmi_trace_item item = {.kind = DMI_TRACE_NAME, .name = tracer->name_num + 1};
  if (known) return known->number;
  return tell(taking, &tracer->names, &tracer->name_num, name, &item, name, fits);
}

static uint32_t place_of(struct taking *taking, const void *caller, bool *fits) {
  struct dmi_tracer *tracer = taking->tracer;
  const struct dmi_tracer_known *known = find(tracer->places, caller);
  struct dmi_trace_item item = {.kind = DMI_TRACE_PLACE, .place = tracer->place_num + 1};
  char where[DMI_WHERE_SIZE];
  if (known) return known->number;
  dmi_where(where, sizeof(where), caller);
  return tell(taking, &tracer->places, &tracer->place_num, caller, &item, where, fits);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Which page a call waits for, and whom it asks, unless that is known.  When a call has ended its
 * page is often here, as it has just come: this process is not named then, and nobody is. */
static void find_page(const struct dmi_tracer *tracer, struct dmi_trace_item *item) {
  struct dmi_see_at at;
  const enum dmi_doing_what what = (enum dmi_doing_what)item->what;
  if (what != DMI_DOING_NOTHING && !dmi_doing_has_addr(what)) item->addr = item->size = 0;
  if (!item->addr || !dmi_doing_has_addr(what)) return;
  if (!dmi_see_find(tracer->process, item->addr, &at)) return;
  item->map = at.base;
  item->page = at.page;
  if (item->member) return;
  const uint32_t self = atomic_load(&tracer->self);
  const bool here = at.role == DMI_ROLE_OWNER;
  if (here ? item->kind == DMI_TRACE_OPEN : at.hint != self) item->member = here ? self : at.hint;
}

static bool take_record(void *arg, const struct dmi_trace_record *record) {
  struct taking *taking = arg;
  bool fits = true;
  struct dmi_trace_item item = {.kind = record->kind,
                                .what = record->what,
                                .tid = taking->tid,
                                .member = record->member,
                                .begin = record->begin,
                                .end = record->end,
                                .size = record->size,
                                .id = record->id};
  item.name = name_of(taking, record->name, &fits);
  if (record->kind == DMI_TRACE_CALL) {
    item.addr = record->addr;
    if (fits && record->caller) item.place = place_of(taking, record->caller, &fits);
    find_page(taking->tracer, &item);
  } else {
    item.map = record->addr;
    item.page = record->page;
  }
  return fits && put(taking, &item, NULL);
}

/* ---- Waits that go on ------------------------------------------------------------------------ */

/* The name of a thread, which may have put nothing into a ring. */
static void name_thread(char *name, int size, int tid) {
  char path[64];
  FILE *file;
  *name = '\0';
  snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
  file = tid == (int)getpid() ? NULL : fopen(path, "re");
  if (file && fgets(name, size, file)) name[strcspn(name, "\n")] = '\0';
  if (file) fclose(file);
  if (!*name) snprintf(name, (size_t)size, "%s", tid == (int)getpid() ? "DMI_main" : "thread");
}

/* False: it does not fit, or there is no memory. */
static bool put_wait(struct taking *taking, const struct dmi_doing_state *state, int64_t now) {
  char name[32];
  bool fits = true;
  struct dmi_trace_item item = {.kind = DMI_TRACE_OPEN,
                                .what = (uint8_t)state->what,
                                .tid = (uint32_t)state->tid,
                                .begin = state->since,
                                .end = now,
                                .addr = state->addr,
                                .size = state->size,
                                .id = state->op};
  item.name = name_of(taking, state->call.name ? state->call.name : "wait", &fits);
  if (fits && state->call.caller) item.place = place_of(taking, state->call.caller, &fits);
  find_page(taking->tracer, &item);
  name_thread(name, sizeof(name), state->tid);
  return fits && put_text(taking, &item, name);
}

/* When all records that were there at `now` have been put in: a wait that had begun long before
 * comes behind the ends of its thread's earlier ones, and its own end comes behind it.  Of a
 * program with very many threads that wait some are told now, and others the next time. */
static void put_waits(struct taking *taking, int64_t now) {
  struct dmi_tracer *tracer = taking->tracer;
  struct dmi_doing_state state[WAITS];
  const bool has_room = taking->piece->length < sizeof(taking->piece->bytes) / 2;
  uint32_t num;
  if (now - tracer->looked < DMI_TRACE_LONG) return;
  num = dmi_doing_look(&tracer->process->access.doings, tracer->below ? tracer->below : UINT64_MAX,
                       state, WAITS);
  for (uint32_t i = 0; i < num; i++) {
    const int64_t since = state[i].since;
    if (state[i].what == DMI_DOING_NOTHING || now - since < DMI_TRACE_LONG) continue;
    if (put_wait(taking, &state[i], now)) continue;
    if (!has_room) return; /* all of them with the next piece */
    break;
  }
  tracer->looked = now;
  tracer->below = num == WAITS ? state[num - 1].number : 0;
}

static bool take_thread(void *arg, const struct dmi_trace_thread *thread) {
  struct taking *taking = arg;
  struct dmi_trace_item item = {.kind = DMI_TRACE_THREAD, .tid = (uint32_t)thread->tid};
  struct dmi_trace_item lost = {.kind = DMI_TRACE_LOST,
                                .tid = (uint32_t)thread->tid,
                                .size = thread->lost,
                                .begin = dmi_clock_ns()};
  /* Room for both, or for neither. */
  if (sizeof(taking->piece->bytes) - taking->piece->length < 4 * sizeof(item)) return false;
  taking->tid = (uint32_t)thread->tid;
  if (thread->is_new) /* the main thread has the name of the program */
    (void)put_text(taking, &item, thread->tid == (int)getpid() ? "DMI_main" : thread->name);
  if (thread->lost) (void)put(taking, &lost, NULL);
  return true;
}

/* ---- Of the process -------------------------------------------------------------------------- */

/* Once more when its dmi_id is known.  What does not fit comes with the next piece, as do counts of
 * lost records. */
static void put_process(struct taking *taking) {
  struct dmi_tracer *tracer = taking->tracer;
  const int64_t id = atomic_load(&tracer->process->stream.id);
  struct dmi_trace_item item = {.kind = DMI_TRACE_PROCESS,
                                .id = (uint64_t)id,
                                .size = (uint64_t)getpid(),
                                .begin = dmi_clock_ns()};
  if (tracer->begun && tracer->told_id == id) return;
  if (!put_text(taking, &item, tracer->host)) return;
  tracer->begun = true;
  tracer->told_id = id;
}

/* The counter, if it has changed; not at the end, as it may change for ever. */
static void put_pool(struct taking *taking) {
  struct dmi_trace_item *last = &taking->tracer->pool, now;
  struct dmi_pager_counts pool;
  dmi_pager_counts(taking->tracer->process->pager, &pool);
  if (last->kind && last->addr == pool.used && last->page == pool.copies &&
      last->size == pool.spilled)
    return;
  now = (struct dmi_trace_item){.kind = DMI_TRACE_POOL,
                                .begin = dmi_clock_ns(),
                                .addr = pool.used,
                                .page = pool.copies,
                                .size = pool.spilled};
  if (put(taking, &now, NULL)) *last = now;
}

/* Records of threads for which there was no memory. */
static void put_unseen(struct taking *taking) {
  struct dmi_tracer_piece *piece = taking->piece;
  dmi_trace_lost_put(piece->bytes, sizeof(piece->bytes), &piece->length,
                     &taking->tracer->trace->unseen);
}

bool dmi_tracer_take(struct dmi_tracer *tracer, struct dmi_tracer_piece *piece) {
  struct taking taking = {.tracer = tracer, .piece = piece};
  const struct dmi_trace_taker taker = {&taking, take_thread, take_record};
  const int64_t now = dmi_clock_ns();
  piece->length = 0;
  put_process(&taking);
  if (dmi_trace_on(tracer->trace)) put_pool(&taking);
  put_unseen(&taking);
  if (dmi_trace_take(tracer->trace, &taker)) put_waits(&taking, now);
  return piece->length != 0;
}
