/*
 * scale_notice.c - who joins, leaves and is lost while DMI_rescale runs.
 *
 * A process that asks to leave takes part until that is granted, which is so at once between two
 * phases; then it leaves when its threads have ended, while the next phase runs already.  One that
 * asks to join is welcomed as soon as that is granted, and takes part from the next phase on.
 *
 * Failure modes: a process is lost before it is welcomed (it is forgotten) or while it leaves; the
 * others have no memory for the pages of a leaver (its notice comes again).
 */
#include <stdlib.h>
#include <string.h>

#include "access/status.h"
#include "base/error.h"
#include "base/xalloc.h"
#include "elastic/nodes.h"
#include "elastic/scale_int.h"
#include "node/calls.h"

/* ---- The list -------------------------------------------------------------------------------- */

struct dmi_scale_node *dmi_scale_find(const struct dmi_scale *s, int32_t dmi_id) {
  for (uint32_t i = 0; i < s->num; i++) {
    if (s->nodes[i]->node.dmi_id == dmi_id) return s->nodes[i];
  }
  return NULL;
}

static struct dmi_scale_node *add(struct dmi_scale *s, const DMI_node_t *node,
                                  enum dmi_scale_state state) {
  struct dmi_scale_node *n = dmi_xalloc(1, sizeof(*n));
  n->node = *node;
  n->state = state;
  n->threads = dmi_nodes_threads(s->thread_num, node->core);
  if (n->threads > DMI_SCALE_THREADS_MOST) n->threads = DMI_SCALE_THREADS_MOST;
  DMI_XALLOC_GROW(s->nodes, s->num, s->capacity);
  s->nodes[s->num++] = n;
  return n;
}

static void finish_goodbye(struct dmi_scale_node *n) {
  if (n->state == DMI_SCALE_GOES) (void)dmi_status_wait(dmi_status_of(&n->goodbye));
}

/* The others keep their order. */
static void drop(struct dmi_scale *s, struct dmi_scale_node *n) {
  uint32_t i = 0;
  while (s->nodes[i] != n)
    i++;
  s->num--;
  memmove(&s->nodes[i], &s->nodes[i + 1], (s->num - i) * sizeof(struct dmi_scale_node *));
  finish_goodbye(n);
  free(n);
}

static bool takes_part(const struct dmi_scale_node *n) {
  return n->state == DMI_SCALE_IN || n->state == DMI_SCALE_ASKS_OUT;
}

int32_t dmi_scale_team(const struct dmi_scale *s, int64_t *threads) {
  int32_t num = 0;
  int64_t all = 0;
  for (uint32_t i = 0; i < s->num; i++) {
    if (!takes_part(s->nodes[i])) continue;
    num++;
    all += s->nodes[i]->threads;
  }
  if (threads) *threads = all;
  return num;
}

/* ---- Joining and leaving --------------------------------------------------------------------- */

/* False: it is lost, or has left, and was dropped. */
static bool welcome(struct dmi_scale *s, struct dmi_scale_node *n) {
  if (!dmi_call_welcome(s->process, n->node.dmi_id) && dmi_error_last() != DMI_ENOTASKED) {
    drop(s, n);
    return false;
  }
  n->state = DMI_SCALE_IN;
  n->node.state = DMI_OPENED;
  return true;
}

static bool goodbye_is_under_way(struct dmi_scale_node *n) {
  return n->state == DMI_SCALE_GOES && !dmi_status_is_done(dmi_status_of(&n->goodbye));
}

/* Threads that the program made itself ran there: nothing comes when they have ended. */
static bool goodbye_was_too_early(struct dmi_scale_node *n) {
  return n->state == DMI_SCALE_GOES && !goodbye_is_under_way(n) &&
         DMI_WITHOUT_WHY(dmi_status_wait(dmi_status_of(&n->goodbye))) == DMI_EBUSY;
}

static void say_goodbye(struct dmi_scale *s, struct dmi_scale_node *n) {
  n->state = DMI_SCALE_GOES;
  (void)dmi_call_goodbye(s->process, n->node.dmi_id, &n->goodbye);
}

void dmi_scale_let_go(struct dmi_scale *s) {
  for (uint32_t i = s->num; i-- > 0;) {
    struct dmi_scale_node *n = s->nodes[i];
    if (goodbye_was_too_early(n)) say_goodbye(s, n);
    if (n->state != DMI_SCALE_OUT || n->runs) continue;
    if (n->node.dmi_id == s->self) {
      drop(s, n); /* dmi_scale_forget does it */
    } else {
      say_goodbye(s, n);
    }
  }
}

/* ---- Is it granted? -------------------------------------------------------------------------- */

/* Copies those of a kind; returns how many. */
static int some(const struct dmi_scale *s, DMI_node_t *to,
                bool (*is)(const struct dmi_scale_node *n)) {
  int num = 0;
  for (uint32_t i = 0; i < s->num; i++) {
    if (is(s->nodes[i])) to[num++] = s->nodes[i]->node;
  }
  return num;
}

static bool asks(const struct dmi_scale_node *n) {
  return n->state == DMI_SCALE_ASKS;
}

static bool asks_out(const struct dmi_scale_node *n) {
  return n->state == DMI_SCALE_ASKS_OUT;
}

static bool judge(const struct dmi_scale *s) {
  DMI_node_t *all;
  DMI_node_t *part[3];
  int num[3];
  bool yes;
  if (!s->process->program.judge_rescale) return true;
  all = dmi_xalloc(3 * (size_t)s->num, sizeof(*all));
  for (uint32_t i = 0; i < 3; i++)
    part[i] = all + i * s->num;
  num[0] = some(s, part[0], asks);
  num[1] = some(s, part[1], asks_out);
  num[2] = some(s, part[2], takes_part);
  yes = s->process->program.judge_rescale(part[0], part[1], part[2], num[0], num[1], num[2]) != 0;
  free(all);
  return yes;
}

static bool somebody_asks(const struct dmi_scale *s) {
  for (uint32_t i = 0; i < s->num; i++) {
    if (asks(s->nodes[i]) || asks_out(s->nodes[i])) return true;
  }
  return false;
}

static void all_go_out(struct dmi_scale *s) {
  for (uint32_t i = 0; i < s->num; i++) {
    if (asks_out(s->nodes[i])) s->nodes[i]->state = DMI_SCALE_OUT;
  }
}

void dmi_scale_consider(struct dmi_scale *s) {
  if (!somebody_asks(s)) return;
  if (!s->granted) {
    if (!s->asked || s->phase.over) return;
    s->asked = false;
    if (!judge(s)) return;
    /* First of all, as the threads must come to a safe point. */
    s->granted = s->phase.addr == 0 || dmi_scale_phase_change(s);
    if (!s->granted) return;
  }
  all_go_out(s);
  for (uint32_t i = 0; i < s->num;) {
    if (!asks(s->nodes[i]) || welcome(s, s->nodes[i])) i++;
  }
}

/* ---- Notices --------------------------------------------------------------------------------- */

static void opened(struct dmi_scale *s, const DMI_node_t *node) {
  struct dmi_scale_node *n = dmi_scale_find(s, node->dmi_id);
  if (n && n->state == DMI_SCALE_GOES) {
    drop(s, n); /* it has left, and another one has its id */
    n = NULL;
  }
  if (!n) (void)add(s, node, DMI_SCALE_ASKS); /* else it was in the list of DMI_nodes */
}

static void closed(struct dmi_scale *s, const DMI_node_t *node) {
  struct dmi_scale_node *n = dmi_scale_find(s, node->dmi_id);
  if (node->dmi_id == s->self) s->self_leaves = true;
  if (!n) n = add(s, node, DMI_SCALE_ASKS);
  n->node.state = DMI_CLOSE;
  if (n->state == DMI_SCALE_IN) {
    n->state = DMI_SCALE_ASKS_OUT;
  } else if (!takes_part(n) && n->state != DMI_SCALE_OUT && !goodbye_is_under_way(n)) {
    if (n->node.dmi_id == s->self) {
      drop(s, n);
    } else {
      say_goodbye(s, n); /* it was not welcomed; or it is tried again, as there may be memory */
    }
  }
}

static void lost(struct dmi_scale *s, const DMI_node_t *node) {
  struct dmi_scale_node *n = dmi_scale_find(s, node->dmi_id);
  if (!n) return;
  if (n->state != DMI_SCALE_ASKS) s->lost++;
  if (n->runs) s->phase.over = s->phase.broken = true;
  drop(s, n);
}

static void noted(struct dmi_scale *s, int64_t value) {
  if (!dmi_scale_phase_has(&s->phase, value)) return; /* of the program, or of a phase before */
  s->phase.notes++;
  s->phase.over = true;
  if (value != s->phase.addr) s->phase.broken = true;
}

static void handle(struct dmi_scale *s, const DMI_node_t *node) {
  s->asked = true;
  if (node->state == DMI_OPEN) opened(s, node);
  if (node->state == DMI_CLOSE) closed(s, node);
  if (node->state == DMI_LOST) lost(s, node);
  if (node->state == DMI_NOTE) noted(s, node->value);
  dmi_scale_consider(s);
}

int32_t dmi_scale_wait(struct dmi_scale *s) {
  DMI_node_t node;
  bool noted;
  int32_t good;
  dmi_scale_let_go(s);
  noted =
      dmi_doing_waits(&s->process->access.doings, DMI_DOING_SCALE, 0, (uint64_t)s->phase.pnum, 0);
  good = dmi_call_poll(s->process, &node);
  dmi_doing_waited(noted);
  if (!good) return dmi_error_last();
  handle(s, &node);
  return DMI_OK;
}

/* *found: there was one. */
static int32_t look_once(struct dmi_scale *s, int32_t *found) {
  DMI_node_t node;
  if (!dmi_call_peek(s->process, &node, found)) return dmi_error_last();
  if (*found) handle(s, &node);
  return DMI_OK;
}

int32_t dmi_scale_look(struct dmi_scale *s) {
  int32_t found = DMI_TRUE, error = DMI_OK;
  s->asked = true;
  dmi_scale_consider(s);
  while (found && error == DMI_OK)
    error = look_once(s, &found);
  return error;
}

int32_t dmi_scale_take_notes(struct dmi_scale *s, int32_t notes) {
  int32_t found = DMI_TRUE, error = DMI_OK;
  while (s->phase.notes < notes && found && error == DMI_OK)
    error = look_once(s, &found);
  return error;
}

/* ---- The first and the last ------------------------------------------------------------------ */

int32_t dmi_scale_list(struct dmi_scale *s) {
  int32_t num = 0;
  DMI_node_t *nodes = dmi_nodes_all(s->process, &num);
  if (!nodes) return dmi_error_last();
  s->self_leaves = true;
  for (int32_t i = 0; i < num; i++) {
    if (nodes[i].dmi_id == s->self) s->self_leaves = nodes[i].state == DMI_CLOSE;
    if (nodes[i].state == DMI_OPENED) (void)add(s, &nodes[i], DMI_SCALE_IN);
    if (nodes[i].state == DMI_OPEN) (void)add(s, &nodes[i], DMI_SCALE_ASKS);
    /* Its notice may be gone: somebody was given it, and has not answered. */
    if (nodes[i].state == DMI_CLOSE && nodes[i].dmi_id != s->self) closed(s, &nodes[i]);
  }
  free(nodes);
  return DMI_OK;
}

void dmi_scale_forget(struct dmi_scale *s, bool leave) {
  if (leave) {
    all_go_out(s);
    dmi_scale_let_go(s);
    for (uint32_t i = 0; i < s->num; i++)
      finish_goodbye(s->nodes[i]);
    dmi_scale_let_go(s); /* those that were too early */
  }
  while (s->num > 0)
    drop(s, s->nodes[s->num - 1]);
  free(s->nodes);
  if (leave && s->self_leaves) {
    DMI_local_status_t status;
    (void)dmi_call_goodbye(s->process, s->self, &status);
    (void)dmi_status_wait(dmi_status_of(&status));
  }
}
