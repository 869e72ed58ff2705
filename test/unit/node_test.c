/*
 * node_test.c - what the parts of a node tell each other (lib/core/node.c): whole nodes join,
 * leave, find no memory and hear that there is some, step by step.  For each thing that a part is
 * told, one of these tests fails if it is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node_world.h"

#define BAD(when, what)      \
  do {                       \
    if (when) return (what); \
  } while (0)

/* A process joins, or begins the program, and is welcomed. */
static const char *join(struct world *w, uint32_t i, uint64_t pages, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = world_open(w, i, pages, broken);
  BAD(!p->joined, "does not join");
  BAD(!world_call(first, DMI_CTL_POLL, 0, 0), "no notice");
  BAD(first->notice.state != DMI_OPEN, "another notice");
  BAD(!world_dismiss(first, DMI_CTL_WELCOME, first->notice.dmi_id) || first->error, "no welcome");
  BAD(!p->opened, "is not opened");
  return NULL;
}

/* Makes a mapping, and writes each page. */
static const char *fill(struct proc *p, uint64_t *base) {
  const unsigned char byte = (unsigned char)p->uid;
  struct dmi_map *map;
  BAD(!world_call(p, DMI_CTL_MMAP, SIZE, PAGES) || p->error, "no mapping");
  *base = p->mapping.base;
  map = env_find(p, *base);
  for (uint64_t i = 0; i < PAGES; i++) {
    struct dmi_page *page = env_record(p, map, i, true);
    BAD(page->role != DMI_ROLE_OWNER, "does not own what it maps");
    BAD(!dmi_page_write_now(&p->core, page, 5, &byte, 1), "no memory for a write");
  }
  return NULL;
}

/* How many pages with bytes it owns; all must be as `fill` of process `uid` left them. */
static uint32_t owned(struct proc *p, uint64_t base, uint32_t uid) {
  struct dmi_map *map = env_find(p, base);
  uint32_t num = 0;
  for (uint64_t i = 0; map && i < PAGES; i++) {
    const struct dmi_page *page = env_record(p, map, i, false);
    num += page && page->role == DMI_ROLE_OWNER && page->frame && page->frame->bytes[5] == uid;
  }
  return num;
}

static uint64_t used(const struct proc *p) {
  return dmi_pool_used(p->pool) / SIZE;
}

/* Asked by a signal, and dismissed. */
static bool goodbye(struct proc *first, struct proc *p) {
  world_input(p, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
  world_run(p->world);
  if (!world_call(first, DMI_CTL_POLL, 0, 0) || first->notice.state != DMI_CLOSE) return false;
  return world_dismiss(first, DMI_CTL_GOODBYE, dmi_member_dmi_id(dmi_node_member(p->node)));
}

/* An own operation begins.  False: it is complete at once. */
static bool begin(struct proc *p, uint64_t base, uint64_t page, struct dmi_req *req) {
  struct dmi_input in = {.type = DMI_IN_BEGIN, .req = req};
  struct dmi_out out;
  dmi_out_init(&out);
  in.page = p->req_page = env_record(p, env_find(p, base), page, true);
  p->req = req;
  (void)dmi_node_step(p->node, &in, &out);
  env_step_end(p, in.page, &out);
  return p->req != NULL;
}

/* Begins DMI_goodbye for a process that has asked to leave. */
static void dismiss(struct proc *first, struct proc *p) {
  world_input(first, &(struct dmi_input){.type = DMI_IN_CALL,
                                         .call = DMI_CTL_GOODBYE,
                                         .op = ++first->op,
                                         .dmi_id = dmi_member_dmi_id(dmi_node_member(p->node))});
}

/* ---- Scenarios: NULL, or what is wrong ------------------------------------------------------ */

/* A process leaves; its heir has memory.  Meanwhile the leaver makes a mapping. */
static const char *leave(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = &w->proc[1];
  uint64_t base;
  const char *bad = join(w, 0, 16, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  struct dmi_map *map;
  if (!bad) bad = fill(p, &base);
  if (bad) return bad;
  p->maps_when_stopped = true;
  BAD(!goodbye(first, p) || first->error, "the goodbye fails");
  BAD(!p->closed || !p->drained || !p->left, "has not left");
  BAD(owned(first, base, p->uid) != PAGES, "the heir has not all pages");
  BAD(used(first) != PAGES, "another use of memory at the heir");
  BAD(used(p) != 0, "the leaver uses memory");
  BAD(dmi_pool_peak(first->pool) > (PAGES + 1) * SIZE,
      "memory is set aside for pages that are here");
  BAD(p->answered != p->op || p->error, "no mapping for a leaver");
  map = env_find(first, p->mapping.base);
  BAD(!map || atomic_load(&map->home) != first->uid, "the heir is not home of that mapping");
  return NULL;
}

/* A page moves elsewhere before it is handed over: one promise is not needed. */
static const char *moved(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = &w->proc[1];
  struct dmi_req req = {.type = DMI_REQ_EXCL, .len = SIZE, .origin = 1, .op = {99}};
  unsigned char bytes[SIZE] = {0};
  struct dmi_input in = {.type = DMI_IN_BEGIN, .req = &req};
  struct dmi_out out;
  uint64_t base;
  const char *bad = join(w, 0, 16, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  if (!bad) bad = fill(p, &base);
  if (bad) return bad;
  BAD(!world_call(first, DMI_CTL_LOOKUP, base, 0) || first->error, "does not find the mapping");
  req.src = dmi_slice_copy(bytes, SIZE);
  in.page = env_record(first, env_find(first, base), 2, true);
  world_input(p, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
  world_run(w);
  dismiss(first, p);
  dmi_out_init(&out);
  (void)dmi_node_step(first->node, &in, &out); /* after LEAVE_GO */
  env_step_end(first, in.page, &out);
  world_run(w);
  dmi_slice_drop(&req.src);
  BAD(first->answered != first->op || first->error, "the goodbye fails");
  BAD(owned(first, base, p->uid) != PAGES - 1, "the heir has not the other pages");
  BAD(used(first) != PAGES, "another use of memory at the heir");
  BAD(w->sent[DMI_SVC_CAPACITY_RETURN] != 1, "the promise is not given back");
  return NULL;
}

/* No process has memory; then one joins that has. */
static const char *refused(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = &w->proc[1];
  uint64_t base;
  const char *bad = join(w, 0, PAGES / 2, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  if (!bad) bad = fill(p, &base);
  if (bad) return bad;
  BAD(!goodbye(first, p), "the goodbye is not answered");
  BAD(first->error != DMI_ENOMEM, "the goodbye does not fail for lack of memory");
  BAD(!p->stays || p->leaves || p->drained, "the leaver does not go on");
  BAD(used(first) != 0, "promises are not given back");
  bad = join(w, 2, PAGES, broken);
  if (bad) return bad;
  BAD(!world_call(first, DMI_CTL_POLL, 0, 0), "no notice that there may be memory");
  BAD(first->notice.state != DMI_CLOSE, "another notice than CLOSE");
  BAD(!world_dismiss(first, DMI_CTL_GOODBYE, first->notice.dmi_id), "the second is not answered");
  BAD(first->error, "the second goodbye fails");
  BAD(!p->left, "has not left");
  BAD(owned(first, base, p->uid) != PAGES / 2, "the heir has not half of the pages");
  BAD(owned(&w->proc[2], base, p->uid) != PAGES / 2, "the third has not the other half");
  BAD(used(first) != PAGES / 2 || used(&w->proc[2]) != PAGES / 2, "another use of memory");
  return NULL;
}

/* No process has memory; then one that has too little reports more. */
static const char *told(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = &w->proc[1];
  uint64_t base, own;
  const char *bad = join(w, 0, PAGES, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  if (!bad) bad = fill(p, &base);
  if (!bad) bad = fill(first, &own);
  if (bad) return bad;
  BAD(!goodbye(first, p) || first->error != DMI_ENOMEM, "the goodbye does not fail");
  BAD(world_call(first, DMI_CTL_POLL, 0, 0), "a notice without a reason");
  /* As if the pages had moved elsewhere. */
  for (uint64_t i = 0; i < PAGES; i++) {
    struct dmi_page *page = env_record(first, env_find(first, own), i, false);
    dmi_frame_unref(dmi_page_spill(&first->core, page));
    page->flags &= (uint16_t)~DMI_PAGE_SPILLED;
  }
  world_run(w);
  BAD(first->answered != first->op, "no notice of more memory");
  BAD(first->notice.state != DMI_CLOSE, "another notice than CLOSE");
  return NULL;
}

/* A process is dismissed when it has promised memory to another one that leaves: it hands over
 * those pages, too, and nobody has memory for them. */
static const char *promised(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = &w->proc[1], *other = &w->proc[2];
  uint64_t base;
  const char *bad = join(w, 0, 1, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  if (!bad) bad = join(w, 2, 16, broken);
  if (!bad) bad = fill(other, &base);
  if (bad) return bad;
  world_input(p, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
  world_input(other, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
  world_run(w);
  dismiss(first, other);
  while (!dmi_pressure_promised(p->pressure) && world_step(w))
    continue;
  BAD(!dmi_pressure_promised(p->pressure), "no promise");
  dismiss(first, p);
  world_run(w);
  BAD(!other->left, "the first leaver has not left");
  BAD(owned(p, base, other->uid) != PAGES - 1, "the promised pages have not come");
  BAD(!p->stays || p->drained, "it leaves, though nobody has memory for these pages");
  return NULL;
}

/* A mapping that is unmapped. */
static const char *unmapped(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *p = &w->proc[1];
  uint64_t base;
  const char *bad = join(w, 0, 16, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  if (!bad) bad = fill(p, &base);
  if (bad) return bad;
  BAD(!world_call(first, DMI_CTL_LOOKUP, base, 0) || first->error, "does not find the mapping");
  BAD(!world_call(first, DMI_CTL_MUNMAP, base, 0), "the unmapping is not answered");
  BAD(first->error || env_find(first, base) || env_find(p, base), "it is not forgotten");
  BAD(used(p) != 0, "its bytes are still here");
  return NULL;
}

/* All survive losses; the third one has a mapping, which the second one knows, too. */
static const char *with_mapping(struct world *w, enum dmi_node_break broken, uint64_t *base) {
  struct proc *other = &w->proc[1];
  const char *bad = NULL;
  w->survive = true;
  for (uint32_t i = 0; !bad && i < NODES; i++)
    bad = join(w, i, 16, broken);
  if (!bad) bad = fill(&w->proc[2], base);
  if (bad) return bad;
  BAD(!world_call(other, DMI_CTL_LOOKUP, *base, 0) || other->error, "does not find the mapping");
  return NULL;
}

/* A process with a mapping is lost.  Another one has a copy of one of its pages, and waits for a
 * write of another one. */
static const char *lost(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *other = &w->proc[1], *p = &w->proc[2];
  unsigned char bytes[SIZE] = {0}, copy[SIZE] = {0};
  const struct dmi_part part = {.len = SIZE};
  struct dmi_req get = {.type = DMI_REQ_READ,
                        .kind = DMI_KIND_INVALIDATE,
                        .len = SIZE,
                        .origin = 2,
                        .op = {7},
                        .dst = copy,
                        .part = &part,
                        .parts = 1};
  struct dmi_req put = {.type = DMI_REQ_PUT, .len = 1, .origin = 2, .op = {8}};
  struct dmi_msg take = {.type = DMI_MSG_TAKE};
  struct dmi_tail entry = {0};
  uint64_t base;
  const char *bad = with_mapping(w, broken, &base);
  if (bad) return bad;
  BAD(!begin(other, base, 2, &get), "does not begin to read");
  world_run(w);
  BAD(other->req || copy[5] != p->uid, "does not read");
  put.src = (struct dmi_slice){.ptr = bytes, .len = 1}; /* copied by who sends it */
  BAD(!begin(other, base, 1, &put), "does not begin to write");
  world_kill(w, 2);
  BAD(!first->froze || !other->froze, "not frozen when the view is taken");
  while (w->first < w->last && !dmi_recover_is_cut(dmi_node_recover(other->node), first->uid))
    deliver(w);
  take.map = base;
  take.list = (struct dmi_slice){.ptr = (unsigned char *)&entry, .len = sizeof(entry)};
  BAD(w->first == w->last, "does not recover");
  world_input(
      other,
      &(struct dmi_input){
          .type = DMI_IN_MESSAGE, .id = first->uid, .msg = &take, .class = DMI_CLASS_HANDOVER});
  BAD(other->held_num != 1, "what comes behind CUT is not held");
  other->held_num = 0;
  world_run(w);
  dmi_slice_drop(&put.src);
  BAD(!first->resumed || !other->resumed, "does not resume");
  BAD(atomic_load(&first->core.frozen) || atomic_load(&other->core.frozen), "is frozen for ever");
  BAD(other->req || put.error != DMI_ELOST, "the write did not fail");
  BAD(owned(other, base, p->uid) != 1, "the copy is not the page");
  BAD(!(env_record(first, env_find(first, base), 3, true)->flags & DMI_PAGE_LOST), "not LOST");
  return NULL;
}

/* The heir has never used the mapping of a lost process, and another one has, but has nothing of
 * it: its pages are not taken for untouched. */
static const char *lost_unknown(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *other = &w->proc[1];
  uint64_t base;
  const char *bad = with_mapping(w, broken, &base);
  if (bad) return bad;
  world_kill(w, 2);
  world_run(w);
  BAD(!first->resumed || !other->resumed, "does not resume");
  BAD(!env_find(first, base), "the heir does not hear of the mapping");
  BAD(!(env_record(first, env_find(first, base), 3, true)->flags & DMI_PAGE_LOST), "not LOST");
  return NULL;
}

/* The home of a page is lost, and at that step of the recovery another one begins: its owner
 * reports it, wherever the home is by then. */
static const char *again_at(struct world *w, enum dmi_node_break broken, uint32_t steps,
                            bool *over) {
  struct proc *other = &w->proc[1];
  unsigned char bytes[SIZE] = {0};
  struct dmi_req put = {.type = DMI_REQ_EXCL, .len = SIZE, .origin = 2, .op = {8}};
  struct dmi_page *page;
  uint64_t base;
  const char *bad = with_mapping(w, broken, &base);
  if (bad) return bad;
  bytes[5] = (unsigned char)other->uid;
  put.src = dmi_slice_copy(bytes, SIZE);
  (void)begin(other, base, 2, &put);
  world_run(w);
  dmi_slice_drop(&put.src);
  BAD(other->req, "cannot write");
  world_kill(w, 2);
  while (steps-- && !*over)
    *over = !world_step(w);
  world_crash(w, NULL);
  world_run(w);
  BAD(!other->resumed || atomic_load(&other->core.frozen), "is frozen for ever");
  BAD(owned(other, base, other->uid) != 1, "its page is lost");
  BAD(!env_find(&w->proc[0], base), "the heir does not hear of the mapping");
  page = env_record(&w->proc[0], env_find(&w->proc[0], base), 2, true);
  BAD(dmi_page_tail(&w->proc[0].core, page) != other->uid, "the home does not know the owner");
  return NULL;
}

static const char *lost_again(struct world *w, enum dmi_node_break broken) {
  const char *bad = NULL;
  bool over = false;
  (void)w;
  for (uint32_t steps = 0; !bad && !over; steps++) {
    struct world *one = calloc(1, sizeof(*one));
    bad = again_at(one, broken, steps, &over);
    world_close(one);
    free(one);
    if (bad && !broken) printf("a second recovery, at step %u: ", steps);
  }
  return bad;
}

/* Who joins behind a loss knows of it. */
static const char *lost_before(struct world *w, enum dmi_node_break broken) {
  struct proc *first = &w->proc[0], *late = &w->proc[2];
  const char *bad;
  w->survive = true;
  bad = join(w, 0, 16, broken);
  if (!bad) bad = join(w, 1, 16, broken);
  if (bad) return bad;
  world_kill(w, 1);
  world_run(w);
  BAD(!first->resumed || !atomic_load(&first->core.losses), "does not recover");
  BAD(!world_call(first, DMI_CTL_POLL, 0, 0) || first->notice.state != DMI_LOST, "no notice");
  bad = join(w, 2, 16, broken);
  if (bad) return bad;
  BAD(atomic_load(&late->core.losses) != atomic_load(&first->core.losses), "does not know of it");
  return NULL;
}

static bool owns(struct proc *p, uint64_t base, uint64_t i) {
  const struct dmi_map *map = env_find(p, base);
  const struct dmi_page *page = map ? env_record(p, env_find(p, base), i, false) : NULL;
  return page && page->role == DMI_ROLE_OWNER && page->frame;
}

/* How many living processes own this page. */
static uint32_t owners(struct world *w, uint64_t base, uint64_t i) {
  uint32_t num = 0;
  for (uint32_t k = 0; k < NODES; k++)
    num += w->proc[k].alive && owns(&w->proc[k], base, i);
  return num;
}

/* Who leaves, who is lost meanwhile, and who dismisses. */
struct loss {
  uint32_t leaver, victim, caller;
};

/* All have a mapping with a page in use; the leaver is asked to leave, and dismissed. */
static const char *leave_begins(struct world *w, enum dmi_node_break broken,
                                const struct loss *loss, uint64_t *base) {
  struct proc *p = &w->proc[loss->leaver], *caller = &w->proc[loss->caller];
  struct dmi_input in = {.type = DMI_IN_CALL, .call = DMI_CTL_GOODBYE};
  const char *bad = NULL;
  w->survive = true;
  for (uint32_t i = 0; !bad && i < NODES; i++)
    bad = join(w, i, 32, broken);
  for (uint32_t i = 0; !bad && i < NODES; i++)
    bad = fill(&w->proc[i], &base[i]);
  if (bad) return bad;
  world_input(p, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
  world_run(w);
  BAD(!world_call(caller, DMI_CTL_POLL, 0, 0), "no notice");
  in.op = ++caller->op;
  in.dmi_id = dmi_member_dmi_id(dmi_node_member(p->node));
  world_input(caller, &in);
  return NULL;
}

static const char *all_go_on(struct world *w, const struct loss *loss) {
  struct proc *p = &w->proc[loss->leaver], *caller = &w->proc[loss->caller];
  for (uint32_t i = 0; i < NODES; i++)
    BAD(w->proc[i].alive && atomic_load(&w->proc[i].core.frozen), "is frozen for ever");
  BAD(p->alive && (!p->left || atomic_load(&p->core.owned)), "does not leave");
  BAD(caller->alive && caller->answered != caller->op, "the goodbye is not answered");
  BAD(caller->alive && !p->alive && !p->drained && !caller->error, "a lost process was dismissed");
  if (p != &w->proc[0])
    BAD(!world_call(&w->proc[0], DMI_CTL_MMAP, SIZE, PAGES) || w->proc[0].error, "no new mapping");
  return NULL;
}

static bool knows(const struct proc *p, const struct proc *other) {
  return dmi_member_peer(dmi_node_member(p->node), other->uid) != NULL;
}

/* A process is lost when `steps` messages of a leave have come.  Pages that a living process owned
 * then are owned by one afterwards. */
static const char *lost_at(struct world *w, enum dmi_node_break broken, const struct loss *loss,
                           uint32_t steps, bool *over) {
  bool owned_then[NODES][PAGES];
  uint64_t base[NODES];
  const char *bad = leave_begins(w, broken, loss, base);
  if (bad) return bad;
  for (; steps && w->first < w->last; steps--)
    world_step(w);
  *over = w->first == w->last || w->proc[loss->leaver].left ||
          w->change[w->newest].coordinator != w->proc[0].uid ||
          !knows(&w->proc[0], &w->proc[loss->victim]);
  if (*over) return NULL;
  w->proc[loss->victim].alive = false;
  for (uint32_t m = 0; m < NODES; m++) {
    for (uint64_t i = 0; i < PAGES; i++)
      owned_then[m][i] = owners(w, base[m], i) > 0;
  }
  world_kill(w, loss->victim);
  world_run(w);
  if (w->proc[loss->leaver].finished &&
      knows(&w->proc[0],
            &w->proc[loss->leaver])) { /* EXIT was on its way: it has ended, and takes no part */
    world_kill(w, loss->leaver);
    world_run(w);
  }
  for (uint32_t m = 0; m < NODES; m++) {
    for (uint64_t i = 0; i < PAGES; i++) {
      BAD(owned_then[m][i] && owners(w, base[m], i) == 0, "a page of a living process is lost");
      BAD(owners(w, base[m], i) > 1, "two owners");
    }
  }
  return all_go_on(w, loss);
}

/* At any step of a leave the heir, the leaver or somebody else is lost. */
static const char *lost_in_leave(struct world *w, enum dmi_node_break broken) {
  static const struct loss losses[] = {{0, 1, 2}, {0, 2, 1}, {0, 2, 2}, {2, 2, 1}, {2, 1, 0}};
  const char *bad = NULL;
  (void)w;
  for (uint32_t i = 0; !bad && i < sizeof(losses) / sizeof(losses[0]); i++) {
    bool over = false;
    uint32_t steps = 1;
    for (; !bad && !over; steps++) {
      struct world *one = calloc(1, sizeof(*one));
      bad = lost_at(one, broken, &losses[i], steps, &over);
      world_close(one);
      free(one);
    }
    if (bad && !broken) printf("process %u, at step %u: ", losses[i].victim, steps - 1);
  }
  return bad;
}

static const char *(*const scenarios[])(struct world *w, enum dmi_node_break broken) = {
    leave, moved,        refused,     told,       promised,     unmapped,
    lost,  lost_unknown, lost_before, lost_again, lost_in_leave};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static const char *play(uint32_t i, enum dmi_node_break broken) {
  struct world *w = calloc(1, sizeof(*w));
  const char *bad = scenarios[i](w, broken);
  world_close(w);
  free(w);
  return bad;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void all_is_heard(void **state) {
  (void)state;
  for (uint32_t i = 0; i < SCENARIOS; i++) {
    const char *bad = play(i, DMI_NODE_BREAK_NOTHING);
    if (bad) fail_msg("scenario %u: %s", i, bad);
  }
  assert_int_equal(dmi_frame_total(), 0);
}

static void not_hearing_is_noticed(void **state) {
  (void)state;
  for (uint32_t broken = 1; broken < DMI_NODE_BREAK_LAST; broken++) {
    const char *bad = NULL;
    for (uint32_t i = 0; !bad && i < SCENARIOS; i++)
      bad = play(i, broken);
    if (!bad) fail_msg("rule %u is not missed", broken);
    printf("without rule %u: %s\n", broken, bad);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_is_heard),
      cmocka_unit_test(not_hearing_is_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
