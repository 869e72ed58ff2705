/*
 * parts.c - see parts.h.
 *
 * Each computation has a client of its own (dmi_remote.h), so that it needs nothing of the others,
 * and can be in any process.  It has a few calls for each core under way, of which it waits for the
 * oldest; so processes that join get work at once, and a client that goes is noticed soon.  A part
 * that a lost process had is done again by another one (dmirun --survive).
 */
#include "parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmi_remote.h"
#include "functions.h"

#define AHEAD 4        /* parts under way for each core */
#define LOOK 64        /* parts between two looks who is there */
#define BY_VALUE 4096  /* bytes of a part that goes with its call */
#define WHY_BYTES 4096 /* of an error's text */

static const ox_part_t parts_of[OX_KINDS] = {
    [OX_QUEENS] = ox_queens_part, [OX_PRODUCT] = ox_product_part};

struct ox_parts {
  enum ox_kind kind;
  const void *job;
  int64_t job_size;
  void (*take)(void *arg, const void *out);
  void *arg;
  DMI_client_t *client; /* NULL: this server runs alone */
  DMI_data_t job_data;
  /* Calls under way, a ring. */
  struct under_way {
    DMI_data_t out;
    int64_t size;
  } * calls;
  int64_t first, num, room;
  int64_t wanted; /* so many are to be under way */
  int64_t looked; /* parts since then */
  DMI_ox_value_t *error;
};

static void *memory(size_t size) {
  void *at = calloc(1, size > 0 ? size : 1);
  if (at == NULL) {
    fputs("ox_dmi: no memory\n", stderr);
    abort();
  }
  return at;
}

/* ---- Who does how much ----------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int64_t *done;                                    /* parts, by dmi_id */
static int32_t num_done;

static void count(int32_t id) {
  pthread_mutex_lock(&lock);
  if (id >= num_done) {
    int64_t *more = memory((size_t)(2 * id + 8) * sizeof *more);
    if (num_done > 0) memcpy(more, done, (size_t)num_done * sizeof *more);
    free(done);
    done = more;
    num_done = 2 * id + 8;
  }
  done[id]++;
  pthread_mutex_unlock(&lock);
}

static int64_t count_of(int32_t id) {
  pthread_mutex_lock(&lock);
  int64_t num = id >= 0 && id < num_done ? done[id] : 0;
  pthread_mutex_unlock(&lock);
  return num;
}

/* All members, for free(). */
static DMI_node_t *members(int32_t *num) {
  for (int32_t room = 16;; room *= 2) {
    DMI_node_t *nodes = memory((size_t)room * sizeof *nodes);
    if (!DMI_nodes(nodes, num, room)) *num = 0;
    if (*num < room) return nodes;
    free(nodes);
  }
}

DMI_ox_value_t *ox_parts_processes(void) {
  int32_t num;
  DMI_node_t *nodes = members(&num);
  DMI_ox_value_t **items = memory((size_t)num * sizeof items[0]);
  int32_t opened = 0;
  for (int32_t i = 0; i < num; i++) {
    if (nodes[i].state != DMI_OPENED) continue;
    DMI_ox_value_t *row[] = {
        DMI_ox_from_int64(nodes[i].dmi_id),
        DMI_ox_from_string(nodes[i].hostname, (int64_t)strlen(nodes[i].hostname)),
        DMI_ox_from_int64(nodes[i].core), DMI_ox_from_int64(count_of(nodes[i].dmi_id))};
    items[opened++] = DMI_ox_list(row, 4);
  }
  DMI_ox_value_t *value = DMI_ox_list(items, opened);
  free(items);
  free(nodes);
  return value;
}

/* ---- The remote functions -------------------------------------------------------------------- */

/* Behind the result is the id of the process that has made it. */
static void compute(DMI_remote_t *call, const void *part, int64_t part_size) {
  int32_t kind = DMI_REMOTE_VALUE(call, 0, int32_t), id = 0;
  int64_t job_size, out_size;
  const void *job = DMI_remote_in(call, 1, &job_size);
  char *out = DMI_remote_out(call, 3, &out_size);
  parts_of[kind](job, job_size, part, part_size, out, out_size - (int64_t)sizeof id);
  (void)DMI_rank(&id);
  memcpy(out + out_size - sizeof id, &id, sizeof id);
}

/* VALUE: the kind, IN: the job, VALUE: the part, OUT. */
DMI_REMOTE(ox_small_part) {
  int64_t size;
  const void *part = DMI_remote_value(call, 2, &size);
  compute(call, part, size);
}

/* VALUE: the kind, IN: the job, IN: the part, OUT. */
DMI_REMOTE(ox_large_part) {
  int64_t size;
  const void *part = DMI_remote_in(call, 2, &size);
  compute(call, part, size);
}

/* ---- A computation --------------------------------------------------------------------------- */

static DMI_ox_value_t *why_not(const char *what) {
  char text[300];
  snprintf(text, sizeof text, "%s: %s", what, DMI_strerror(DMI_errno()));
  return DMI_ox_error(text);
}

/* Processes join and leave. */
static void look(struct ox_parts *parts) {
  int32_t num;
  DMI_node_t *nodes = members(&num);
  parts->wanted = parts->looked = 0;
  for (int32_t i = 0; i < num; i++)
    if (nodes[i].state == DMI_OPENED) parts->wanted += AHEAD * (int64_t)nodes[i].core;
  if (parts->wanted < AHEAD) parts->wanted = AHEAD;
  free(nodes);
}

struct ox_parts *ox_parts_begin(enum ox_kind kind, const void *job, int64_t job_size,
                                void (*take)(void *arg, const void *out), void *arg,
                                DMI_ox_value_t **error) {
  /* Whoever runs the program handles notices. */
  const DMI_client_options_t options = {.own_poll = 1};
  struct ox_parts *parts = memory(sizeof *parts);
  parts->kind = kind;
  parts->job = job;
  parts->job_size = job_size;
  parts->take = take;
  parts->arg = arg;
  if (ox_runs_alone()) return parts;
  if (!DMI_client_open(&parts->client, &options)) {
    *error = why_not("client_open");
    free(parts);
    return NULL;
  }
  parts->job_data = DMI_data_put(parts->client, job, job_size);
  look(parts);
  return parts;
}

/* A part cannot be had: the first reason counts. */
static void fails(struct ox_parts *parts, DMI_data_t data) {
  DMI_failure_t why;
  char text[WHY_BYTES];
  if (parts->error != NULL) return;
  parts->error = why_not("a part");
  if (DMI_errno() != DMI_EREMOTE || !DMI_data_failure(parts->client, data, &why)) return;
  DMI_ox_drop(parts->error);
  snprintf(text, sizeof text, "%s failed on %s: %s", why.function, why.hostname, why.sentence);
  parts->error = DMI_ox_error(text);
}

/* The oldest one. */
static void take_one(struct ox_parts *parts) {
  struct under_way *call = &parts->calls[parts->first];
  bool wanted = parts->error == NULL && !DMI_ox_interrupted();
  char *out = wanted ? memory((size_t)call->size) : NULL;
  int32_t id;
  if (wanted && DMI_data_read(parts->client, call->out, out, 0, call->size, NULL)) {
    memcpy(&id, out + call->size - sizeof id, sizeof id);
    count(id);
    parts->take(parts->arg, out);
  } else if (wanted) {
    fails(parts, call->out);
  }
  (void)DMI_data_drop(parts->client, call->out);
  free(out);
  parts->first = (parts->first + 1) % parts->room;
  parts->num--;
}

/* A place behind the last one. */
static struct under_way *place(struct ox_parts *parts) {
  if (parts->num == parts->room) {
    struct under_way *more = memory((size_t)(2 * parts->room + 16) * sizeof *more);
    for (int64_t i = 0; i < parts->num; i++)
      more[i] = parts->calls[(parts->first + i) % parts->room];
    free(parts->calls);
    parts->calls = more;
    parts->first = 0;
    parts->room = 2 * parts->room + 16;
  }
  return &parts->calls[(parts->first + parts->num) % parts->room];
}

static bool issue(struct ox_parts *parts, const void *part, int64_t part_size,
                  struct under_way *call) {
  int32_t kind = (int32_t)parts->kind;
  if (part_size <= BY_VALUE)
    return DMI_call(parts->client, ox_small_part, DMI_VALUE(kind), DMI_IN(parts->job_data),
                    DMI_BYTES(part, part_size), DMI_OUT(&call->out, call->size));
  DMI_data_t data = DMI_data_put(parts->client, part, part_size);
  bool good = DMI_call(parts->client, ox_large_part, DMI_VALUE(kind), DMI_IN(parts->job_data),
                       DMI_IN(data), DMI_OUT(&call->out, call->size));
  if (good) (void)DMI_data_drop(parts->client, data);
  return good;
}

static bool do_here(struct ox_parts *parts, const void *part, int64_t part_size, int64_t out_size) {
  void *out = memory((size_t)out_size);
  parts_of[parts->kind](parts->job, parts->job_size, part, part_size, out, out_size);
  parts->take(parts->arg, out);
  free(out);
  return !DMI_ox_interrupted();
}

bool ox_parts_add(struct ox_parts *parts, const void *part, int64_t part_size, int64_t out_size) {
  if (parts->client == NULL) return do_here(parts, part, part_size, out_size);
  if (++parts->looked >= LOOK) look(parts);
  while (parts->num >= parts->wanted)
    take_one(parts);
  if (parts->error != NULL || DMI_ox_interrupted()) return false;
  struct under_way *call = place(parts);
  call->size = out_size + (int64_t)sizeof(int32_t);
  if (issue(parts, part, part_size, call))
    parts->num++;
  else
    parts->error = why_not("a part");
  return parts->error == NULL;
}

DMI_ox_value_t *ox_parts_end(struct ox_parts *parts) {
  while (parts->num > 0)
    take_one(parts);
  if (parts->client != NULL && !DMI_client_close(parts->client) && parts->error == NULL)
    parts->error = why_not("client_close");
  DMI_ox_value_t *error = parts->error;
  free(parts->calls);
  free(parts);
  return error;
}
