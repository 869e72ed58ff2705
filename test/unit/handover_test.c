/*
 * handover_test.c - what the simulator does not test of the handover (lib/core/handover.h):
 * messages of a faulty member, single requests to the directory, how much is in flight at a time,
 * and that a wrong transition is noticed.
 *
 * One process, with uid 1; the test checks what it sends.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/handover.h"
#include "core/page_crash.h"

#define MAPS 3
#define PAGES 8
#define SIZE 4096
#define BASE(map) (((uint64_t)(map) + 1) << 20)

struct world {
  struct dmi_core core;
  struct dmi_handover_env env;
  struct dmi_handover *handover;
  struct {
    bool known;
    int refs;
    struct dmi_map map;
    struct dmi_page *page[PAGES];
  } at[MAPS];
  int arrived;
  struct dmi_req req[PAGES]; /* writes of this process, to map 0 */
  struct dmi_out sent;       /* by steps of pages */
  struct dmi_out out;        /* of the present event */
};

/* ---- What it walks over --------------------------------------------------------------------- */

static uint32_t num_of(uint64_t base) {
  return (uint32_t)(base >> 20) - 1;
}

static struct dmi_map *find(void *arg, uint64_t base) {
  struct world *w = arg;
  uint32_t num = num_of(base);
  return num < MAPS && w->at[num].known ? &w->at[num].map : NULL;
}

static void enter(void *arg, const struct dmi_map *what) {
  struct world *w = arg;
  uint32_t num = num_of(what->base);
  assert_true(num < MAPS && !w->at[num].known);
  memcpy(&w->at[num].map, what, sizeof(*what));
  w->at[num].known = true;
}

static void forget(void *arg, struct dmi_map *map) {
  struct world *w = arg;
  w->at[num_of(map->base)].known = false;
  w->at[num_of(map->base)].refs++;
}

static struct dmi_map *next_map(void *arg, uint64_t base) {
  struct world *w = arg;
  for (uint32_t m = (uint32_t)(base >> 20); m < MAPS; m++) {
    if (w->at[m].known) return &w->at[m].map;
  }
  return NULL;
}

static bool ref(void *arg, struct dmi_map *map) {
  ((struct world *)arg)->at[num_of(map->base)].refs++;
  return true;
}

static void unref(void *arg, struct dmi_map *map) {
  ((struct world *)arg)->at[num_of(map->base)].refs--;
}

static void hold(void *arg, struct dmi_map *map) {
  (void)arg;
  (void)map;
}

static void arrived(void *arg, struct dmi_map *map) {
  ((struct world *)arg)->arrived++;
  atomic_store(&map->arriving, 0);
}

static struct dmi_page *record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  struct world *w = arg;
  struct dmi_page **page = &w->at[num_of(map->base)].page[index];
  if (*page || !make) return *page;
  *page = calloc(1, sizeof(**page));
  dmi_page_init(&w->core, map, *page, index);
  return *page;
}

static struct dmi_page *next_record(void *arg, struct dmi_map *map, uint64_t from) {
  struct world *w = arg;
  for (uint64_t p = from; p < PAGES; p++) {
    if (w->at[num_of(map->base)].page[p]) return w->at[num_of(map->base)].page[p];
  }
  return NULL;
}

static void unlock(void *arg, struct dmi_page *page) {
  (void)arg;
  (void)page;
}

static void step_end(void *arg, struct dmi_page *page, struct dmi_out *out) {
  struct world *w = arg;
  (void)page;
  for (uint32_t i = 0; i < out->num; i++) {
    if (out->act[i].type == DMI_ACT_COMPLETE) continue;
    assert_int_equal(out->act[i].type, DMI_ACT_SEND);
    dmi_out_send(&w->sent, out->act[i].to, &out->act[i].msg);
  }
  dmi_out_free(out);
}

/* Of four processes, process 4 is no member any more. */
static bool is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= 1 && uid <= 3;
}

static int setup(void **state) {
  struct world *w = calloc(1, sizeof(*w));
  w->core.self = 1;
  w->core.is_member = is_member;
  w->env = (struct dmi_handover_env){.arg = w,
                                     .find = find,
                                     .enter = enter,
                                     .forget = forget,
                                     .next_map = next_map,
                                     .ref = ref,
                                     .unref = unref,
                                     .hold = hold,
                                     .release = hold,
                                     .arrived = arrived,
                                     .record = record,
                                     .next_record = next_record,
                                     .unlock = unlock,
                                     .step_end = step_end};
  w->handover = dmi_handover_new(&w->core, &w->env);
  dmi_out_init(&w->sent);
  dmi_out_init(&w->out);
  *state = w;
  return 0;
}

static void drop(struct dmi_out *out) {
  struct dmi_act act;
  while (dmi_out_take(out, &act)) {
    if (act.type != DMI_ACT_SEND) continue;
    dmi_slice_drop(&act.msg.list);
    dmi_slice_drop(&act.msg.body);
  }
  dmi_out_free(out);
}

static int teardown(void **state) {
  struct world *w = *state;
  dmi_handover_free(w->handover);
  drop(&w->sent);
  drop(&w->out);
  for (uint32_t m = 0; m < MAPS; m++) {
    assert_int_equal(w->at[m].refs, 0);
    for (uint32_t p = 0; p < PAGES; p++) {
      if (w->at[m].page[p]) dmi_page_fini(&w->core, w->at[m].page[p]);
      free(w->at[m].page[p]);
    }
  }
  for (uint32_t p = 0; p < PAGES; p++)
    dmi_slice_drop(&w->req[p].src);
  free(w);
  return 0;
}

/* ---- Events --------------------------------------------------------------------------------- */

static void known(struct world *w, uint32_t map, uint32_t home) {
  struct dmi_map what = {.base = BASE(map), .page_size = SIZE, .page_num = PAGES};
  atomic_init(&what.home, home);
  enter(w, &what);
}

static bool message(struct world *w, uint32_t from, struct dmi_msg msg) {
  return dmi_handover_message(w->handover, from, &msg, &w->out);
}

static bool home_begin(struct world *w, uint32_t from, uint32_t map, uint64_t size, uint64_t num) {
  return message(w, from,
                 (struct dmi_msg){.type = DMI_MSG_HOME_BEGIN,
                                  .origin = from,
                                  .map = BASE(map),
                                  .home = {.page_size = size, .page_num = num}});
}

static bool list(struct world *w, uint32_t from, enum dmi_msg_type type, uint32_t map,
                 struct dmi_tail entry, uint16_t flags) {
  struct dmi_msg msg = {.type = (uint8_t)type, .flags = flags, .origin = from, .map = BASE(map)};
  msg.list = dmi_slice_copy(&entry, sizeof(entry));
  return message(w, from, msg);
}

/* The next action of the event. */
static struct dmi_act next(struct world *w, enum dmi_act_type type) {
  struct dmi_act act;
  assert_true(dmi_out_take(&w->out, &act));
  assert_int_equal(act.type, type);
  return act;
}

static void no_more(struct world *w) {
  struct dmi_act act;
  assert_false(dmi_out_take(&w->out, &act));
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void home_not_believed(void **state) {
  struct world *w = *state;
  known(w, 1, 1);
  assert_false(home_begin(w, 2, 0, 0, PAGES));
  assert_false(home_begin(w, 2, 0, SIZE, 0));
  assert_false(home_begin(w, 2, 0, (uint64_t)1 << 40, (uint64_t)1 << 40));
  assert_false(message(w, 2, /* goes beyond the last address */
                       (struct dmi_msg){.type = DMI_MSG_HOME_BEGIN,
                                        .map = UINT64_C(3) << 61,
                                        .home = {UINT64_C(1) << 61, 1, 0}}));
  assert_false(home_begin(w, 2, 1, SIZE, PAGES)); /* the home is here */
  known(w, 2, 3);
  assert_false(home_begin(w, 2, 2, 2 * SIZE, PAGES)); /* it has other sizes */
  assert_false(home_begin(w, 2, 2, SIZE, PAGES + 1));
  assert_null(find(w, BASE(0)));
  assert_true(home_begin(w, 2, 0, SIZE, PAGES));
  assert_false(home_begin(w, 3, 0, SIZE, PAGES)); /* is arriving */
  assert_false(list(w, 3, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){1, 2, 0}, 0));
  assert_false(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){PAGES, 2, 0}, 0));
  assert_false(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){1, 4, 0}, 0));
  assert_true(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){1, 2, 0}, 0));
  assert_false(message(w, 3, (struct dmi_msg){.type = DMI_MSG_HOME_END, .map = BASE(0)}));
  assert_int_equal(w->arrived, 0);
  assert_false(message(w, 2, (struct dmi_msg){.type = DMI_MSG_HOME_DONE, .map = BASE(0)}));
  assert_false(message(w, 2, (struct dmi_msg){.type = DMI_MSG_TAKE, .map = BASE(0)}));
  no_more(w);
}

/* A tail was lost while the list was on its way: all pages are frozen. */
static void home_arrives_behind_a_loss(void **state) {
  struct world *w = *state;
  known(w, 0, 2);
  assert_true(home_begin(w, 2, 0, SIZE, PAGES));
  atomic_store(&w->core.frozen, true);
  assert_true(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){1, 4, 0}, 0));
  assert_int_equal(dmi_page_tail(&w->core, record(w, &w->at[0].map, 1, false)), 4);
  assert_false(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){PAGES, 2, 0}, 0));
  atomic_store(&w->core.frozen, false);
  assert_false(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){2, 4, 0}, 0));
}

static void home_arrives(void **state) {
  struct world *w = *state;
  struct dmi_act act;
  known(w, 0, 2);
  assert_int_equal(record(w, &w->at[0].map, 1, true)->role, DMI_ROLE_NONE);
  assert_int_equal(record(w, &w->at[0].map, 2, true)->role, DMI_ROLE_NONE);
  assert_true(home_begin(w, 2, 0, SIZE, PAGES));
  assert_int_equal(atomic_load(&w->at[0].map.arriving), 2);
  assert_true(list(w, 2, DMI_MSG_HOME_TAILS, 0, (struct dmi_tail){1, 3, 0}, 0));
  assert_true(message(w, 2, (struct dmi_msg){.type = DMI_MSG_HOME_END, .map = BASE(0)}));
  assert_ptr_equal(next(w, DMI_ACT_REPLAY).map, &w->at[0].map);
  act = next(w, DMI_ACT_SEND);
  assert_int_equal(act.msg.type, DMI_MSG_HOME_DONE);
  assert_int_equal(act.to, 2);
  no_more(w);
  assert_int_equal(w->arrived, 1);
  assert_int_equal(dmi_page_tail(&w->core, w->at[0].page[1]), 3);
  assert_int_equal(w->at[0].page[1]->role, DMI_ROLE_NONE);
  assert_int_equal(w->at[0].page[2]->role, DMI_ROLE_OWNER); /* nobody had asked for it */
}

/* A copy of a page that was never used: the leaver, or its home, is faulty. */
static void copy_of_nothing(void **state) {
  struct world *w = *state;
  known(w, 0, 2);
  record(w, &w->at[0].map, 1, true)->copy = DMI_KIND_UPDATE;
  assert_true(home_begin(w, 2, 0, SIZE, PAGES));
  assert_false(message(w, 2, (struct dmi_msg){.type = DMI_MSG_HOME_END, .map = BASE(0)}));
  (void)next(w, DMI_ACT_REPLAY); /* so that no process waits for ever */
  no_more(w);
  w->at[0].page[1]->copy = 0;
}

/* HOME_END does not come, and the mapping is forgotten meanwhile: operations that wait fail. */
static void forgotten(void **state) {
  struct world *w = *state;
  assert_true(home_begin(w, 2, 0, SIZE, PAGES));
  dmi_handover_forget(w->handover, BASE(0), &w->out);
  assert_ptr_equal(next(w, DMI_ACT_REPLAY).map, &w->at[0].map);
  assert_ptr_equal(next(w, DMI_ACT_FREED).map, &w->at[0].map);
  no_more(w);
  assert_int_equal(w->arrived, 1);
  unref(w, &w->at[0].map);
  dmi_handover_forget(w->handover, BASE(0), &w->out);
  no_more(w);
}

static void looked_up(void **state) {
  struct world *w = *state;
  struct dmi_act first, second, act;
  assert_true(list(w, 2, DMI_MSG_TAKE, 0, (struct dmi_tail){1, 0, 0}, DMI_F_MUST));
  assert_true(list(w, 3, DMI_MSG_TAKE, 1, (struct dmi_tail){4, 0, 0}, 0));
  first = next(w, DMI_ACT_LOOKUP);
  second = next(w, DMI_ACT_LOOKUP);
  no_more(w);
  assert_int_equal(first.value, BASE(0));
  assert_int_equal(second.value, BASE(1));
  assert_int_not_equal(first.number, second.number);
  /* The second one is unmapped: the offer is refused. */
  dmi_handover_found(w->handover, second.number, NULL, &w->out);
  act = next(w, DMI_ACT_SEND);
  assert_int_equal(act.to, 3);
  assert_int_equal(act.msg.type, DMI_MSG_REFUSE_PAGE);
  assert_int_equal(act.msg.flags, 0);
  assert_int_equal(((struct dmi_tail *)(void *)act.msg.list.frame->bytes)->page, 4);
  dmi_slice_drop(&act.msg.list);
  no_more(w);
  assert_int_equal(w->sent.num, 0);
  /* The first one is known now: this process will be the owner. */
  known(w, 0, 3);
  dmi_handover_found(w->handover, first.number, &w->at[0].map, &w->out);
  (void)next(w, DMI_ACT_TAKEN);
  act = next(w, DMI_ACT_PROMISED);
  assert_int_equal(act.to, 2);
  assert_int_equal(act.value, SIZE);
  no_more(w);
  assert_int_equal(w->sent.num, 1);
  assert_int_equal(w->sent.act[0].msg.type, DMI_MSG_OWN);
  /* An answer that was not asked for. */
  dmi_handover_found(w->handover, first.number, &w->at[0].map, &w->out);
  no_more(w);
}

/* A loss comes before the directory's answer, or before it is asked: nothing is refused, as who has
 * offered offers again. */
static void looked_up_behind_a_loss(void **state) {
  struct world *w = *state;
  struct dmi_act act;
  assert_true(list(w, 2, DMI_MSG_TAKE, 0, (struct dmi_tail){1, 0, 0}, DMI_F_MUST));
  act = next(w, DMI_ACT_LOOKUP);
  atomic_store(&w->core.frozen, true);
  dmi_handover_frozen(w->handover);
  assert_true(list(w, 2, DMI_MSG_TAKE, 1, (struct dmi_tail){1, 0, 0}, DMI_F_MUST));
  no_more(w);
  atomic_store(&w->core.frozen, false);
  dmi_handover_found(w->handover, act.number, NULL, &w->out);
  no_more(w);
}

/* A page is offered to a frozen process: nothing is taken, and the promise is not used up. */
static void offered_behind_a_loss(void **state) {
  struct world *w = *state;
  known(w, 0, 3);
  for (int frozen = 1; frozen >= 0; frozen--) {
    atomic_store(&w->core.frozen, frozen);
    assert_true(list(w, 2, DMI_MSG_TAKE, 0, (struct dmi_tail){1, 0, 0}, DMI_F_MUST));
    if (!frozen) (void)next(w, DMI_ACT_TAKEN);
    if (!frozen) assert_int_equal(next(w, DMI_ACT_PROMISED).value, SIZE);
    no_more(w);
    assert_int_equal(w->sent.num, frozen ? 0 : 1);
  }
}

/* Pages beyond the mapping are refused, and no record is made. */
static void beyond(void **state) {
  struct world *w = *state;
  struct dmi_act act;
  known(w, 0, 3);
  assert_true(list(w, 2, DMI_MSG_TAKE, 0, (struct dmi_tail){PAGES, 0, 1}, DMI_F_MUST));
  act = next(w, DMI_ACT_SEND);
  assert_int_equal(act.msg.type, DMI_MSG_REFUSE_PAGE);
  assert_int_equal(act.msg.flags, DMI_F_MUST);
  dmi_slice_drop(&act.msg.list);
  no_more(w);
  assert_true(list(w, 2, DMI_MSG_REFUSE_PAGE, 0, (struct dmi_tail){PAGES, 0, 0}, 0));
  assert_int_equal(next(w, DMI_ACT_KEPT).to, 2);
}

static uint32_t go_on(struct world *w) {
  uint32_t steps = 0;
  while (dmi_handover_go_on(w->handover, &w->out))
    steps++;
  return steps;
}

/* The home was once lost: pages that nobody has asked for since are LOST, at the heir, too. */
static void hole_arrives(void **state) {
  struct world *w = *state;
  struct dmi_act act;
  known(w, 0, 2);
  assert_int_equal(record(w, &w->at[0].map, 1, true)->role, DMI_ROLE_NONE);
  assert_true(message(w, 2,
                      (struct dmi_msg){.type = DMI_MSG_HOME_BEGIN,
                                       .flags = DMI_F_LOST,
                                       .origin = 2,
                                       .map = BASE(0),
                                       .home = {.page_size = SIZE, .page_num = PAGES}}));
  assert_true(message(w, 2, (struct dmi_msg){.type = DMI_MSG_HOME_END, .map = BASE(0)}));
  assert_int_equal(record(w, &w->at[0].map, 1, true)->role, DMI_ROLE_OWNER);
  assert_true(record(w, &w->at[0].map, 1, true)->flags & DMI_PAGE_LOST);
  assert_int_equal(record(w, &w->at[0].map, 2, true)->role, DMI_ROLE_OWNER);
  assert_true(record(w, &w->at[0].map, 2, true)->flags & DMI_PAGE_LOST);
  while (dmi_out_take(&w->out, &act)) {
  }
  dmi_handover_begin(w->handover, 3, &w->out);
  (void)go_on(w);
  (void)next(w, DMI_ACT_LEAVES);
  act = next(w, DMI_ACT_SEND);
  assert_int_equal(act.msg.type, DMI_MSG_HOME_BEGIN);
  assert_true(act.msg.flags & DMI_F_LOST);
  while (dmi_out_take(&w->out, &act)) {
    if (act.type == DMI_ACT_SEND) dmi_slice_drop(&act.msg.list);
  }
}

/* At most the bytes of 2 pages are in flight, besides the one that is offered. */
static void not_too_much(void **state) {
  struct world *w = *state;
  uint32_t gone = 0;
  known(w, 0, 1);
  for (uint32_t p = 0; p < PAGES; p++)
    (void)record(w, &w->at[0].map, p, true);
  dmi_handover_set_sizes(w->handover, 3, 2 * SIZE);
  dmi_handover_begin(w->handover, 2, &w->out);
  (void)go_on(w);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_PAGES);
  (void)next(w, DMI_ACT_LEAVES);
  assert_int_equal(next(w, DMI_ACT_SEND).msg.type, DMI_MSG_HOME_BEGIN);
  for (uint32_t i = 0; i < 3; i++) {
    struct dmi_act act = next(w, DMI_ACT_SEND);
    assert_int_equal(act.msg.type, DMI_MSG_HOME_TAILS);
    assert_int_equal(act.msg.list.len / sizeof(struct dmi_tail), i < 2 ? 3 : 2);
    dmi_slice_drop(&act.msg.list);
  }
  assert_int_equal(next(w, DMI_ACT_SEND).msg.type, DMI_MSG_HOME_END);
  no_more(w);
  while (atomic_load(&w->core.owned)) {
    struct dmi_msg own = {.type = DMI_MSG_OWN, .flags = DMI_F_TAIL, .origin = 2, .map = BASE(0)};
    struct dmi_out out;
    uint32_t offered = 0;
    for (uint32_t p = 0; p < PAGES; p++)
      offered += (w->at[0].page[p]->flags & DMI_PAGE_OFFERED) != 0;
    assert_int_equal(offered, PAGES - gone < 3 ? PAGES - gone : 3);
    while (!(w->at[0].page[own.page]->flags & DMI_PAGE_OFFERED))
      own.page++;
    dmi_out_init(&out);
    assert_true(dmi_page_message(&w->core, w->at[0].page[own.page], 2, &own, NULL, &out));
    step_end(w, NULL, &out);
    gone++;
    (void)go_on(w);
  }
  assert_int_equal(gone, PAGES);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_PAGES);
  assert_false(message(w, 3, (struct dmi_msg){.type = DMI_MSG_HOME_DONE, .map = BASE(0)}));
  assert_true(message(w, 2, (struct dmi_msg){.type = DMI_MSG_HOME_DONE, .map = BASE(0)}));
  (void)go_on(w);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_DRAINED);
  (void)next(w, DMI_ACT_DRAINED);
  no_more(w);
}

/* To whom the page of the only TAKE for it was offered since; the messages are dropped. */
static uint32_t offered_to(struct world *w, uint64_t page) {
  uint32_t to = 0;
  for (uint32_t i = 0; i < w->sent.num; i++) {
    const struct dmi_act *act = &w->sent.act[i];
    const struct dmi_tail *entry = (const void *)act->msg.list.ptr;
    if (act->msg.type != DMI_MSG_TAKE || entry->page != page) continue;
    assert_int_equal(to, 0);
    assert_false(entry->zero);
    to = act->to;
  }
  drop(&w->sent);
  dmi_out_init(&w->sent);
  return to;
}

static void report(struct world *w, uint32_t from, uint64_t number, uint64_t bytes) {
  struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_REPORT};
  msg.capacity_report = (struct dmi_msg_capacity_report){
      .number = number, .kind = DMI_CAPACITY_PROMISE, .bytes = bytes};
  assert_true(dmi_handover_report(w->handover, from, &msg));
}

/* The process leaves: 3 promises memory for one page, the heir 2 none. It is to go on with that. */
static void gets_promise(struct world *w) {
  static const uint32_t uid[] = {2, 3};
  dmi_handover_view(w->handover, uid, 2);
  dmi_handover_begin(w->handover, 2, &w->out);
  (void)go_on(w);
  report(w, 2, 1, 0);
  (void)go_on(w);
  report(w, 3, 2, SIZE);
}

static void leaves_with_promise(struct world *w) {
  gets_promise(w);
  (void)go_on(w);
}

static void begin_anew(struct dmi_out *out) {
  drop(out);
  dmi_out_init(out);
}

/* A loss, and all goes on. */
static void frozen_and_resumed(struct world *w, struct dmi_page *page) {
  dmi_handover_frozen(w->handover);
  dmi_page_freeze(&w->core, page);
  page->flags &= (uint16_t)~DMI_PAGE_FROZEN;
  dmi_handover_resumed(w->handover);
  (void)go_on(w);
}

/* 3 has promised memory for page 1, the heir 2 none.  A loss comes when the page was offered to 3:
 * so it is again, behind RESUME. */
static void offered_again(void **state) {
  struct world *w = *state;
  struct dmi_page *page;
  known(w, 0, 1);
  page = record(w, &w->at[0].map, 1, true);
  page->frame = dmi_frame_new_zero(SIZE);
  leaves_with_promise(w);
  assert_int_equal(offered_to(w, 1), 3);
  frozen_and_resumed(w, page);
  assert_int_equal(offered_to(w, 1), 3);
  begin_anew(&w->out);
}

/* The pager had offered it before the leave, and that is refused after an offer by a promise. */
static void refused_late(void **state) {
  struct world *w = *state;
  struct dmi_page *page;
  struct dmi_out out;
  known(w, 0, 1);
  page = record(w, &w->at[0].map, 1, true);
  page->frame = dmi_frame_new_zero(SIZE);
  dmi_out_init(&out);
  assert_true(dmi_page_offer(&w->core, page, 2, &out));
  step_end(w, page, &out);
  assert_int_equal(offered_to(w, 1), 2);
  leaves_with_promise(w);
  assert_int_equal(offered_to(w, 1), 3);
  assert_true(list(w, 2, DMI_MSG_REFUSE_PAGE, 0, (struct dmi_tail){1, 0, 0}, 0));
  frozen_and_resumed(w, page);
  assert_int_equal(offered_to(w, 1), 3);
  begin_anew(&w->out);
}

/* The next action asks for promises for so many pages. */
static void asks_for(struct world *w, uint64_t pages) {
  struct dmi_act act = next(w, DMI_ACT_SEND);
  assert_int_equal(act.msg.type, DMI_SVC_CAPACITY_ASK);
  assert_int_equal(act.msg.capacity_ask.bytes, pages * SIZE);
}

/* A page has no bytes yet, but its first write waits for memory. */
static void counts_what_stalls(void **state) {
  static const uint32_t uid[] = {2};
  struct world *w = *state;
  known(w, 0, 1);
  (void)record(w, &w->at[0].map, 0, true);
  record(w, &w->at[0].map, 1, true)->flags |= DMI_PAGE_STALLED;
  dmi_handover_view(w->handover, uid, 1);
  dmi_handover_begin(w->handover, 2, &w->out);
  (void)go_on(w);
  asks_for(w, 1);
}

/* A recovery makes it owner of one more page while it asks for promises: it counts again. */
static void counts_again(void **state) {
  static const uint32_t uid[] = {2, 3};
  struct world *w = *state;
  known(w, 0, 1);
  record(w, &w->at[0].map, 1, true)->frame = dmi_frame_new_zero(SIZE);
  dmi_handover_view(w->handover, uid, 2);
  dmi_handover_begin(w->handover, 2, &w->out);
  for (uint64_t pages = 1; pages <= 2; pages++) {
    (void)go_on(w);
    asks_for(w, pages);
    if (pages == 1) record(w, &w->at[0].map, 2, true)->frame = dmi_frame_new_zero(SIZE);
    report(w, 2, pages, 0);
    dmi_handover_resumed(w->handover);
  }
}

/* Begins an EXCLUSIVE write of a whole page. Returns what is sent for it. */
static enum dmi_msg_type write_exclusive(struct world *w, struct dmi_page *page) {
  static const unsigned char bytes[SIZE];
  struct dmi_req *req = &w->req[page->index];
  enum dmi_msg_type type;
  struct dmi_out out;
  *req = (struct dmi_req){.type = DMI_REQ_EXCL,
                          .op = {page->index + 1},
                          .len = sizeof(bytes),
                          .src = {NULL, bytes, sizeof(bytes)}};
  dmi_out_init(&out);
  dmi_page_begin(&w->core, page, req, &out);
  assert_int_equal(out.num, 1);
  type = out.act[0].msg.type;
  step_end(w, page, &out);
  return type;
}

/* `holder`: who has a copy of it; 0: nobody. */
static void granted(struct world *w, struct dmi_page *page, uint32_t holder) {
  struct dmi_holder one = {holder, DMI_KIND_UPDATE};
  struct dmi_msg msg = {
      .type = DMI_MSG_GRANT, .flags = DMI_F_ZERO, .origin = 1, .map = BASE(0), .page = page->index};
  struct dmi_out out;
  if (holder) msg.list = dmi_slice_xcopy(&one, sizeof(one));
  dmi_out_init(&out);
  assert_true(dmi_page_message(&w->core, page, 2, &msg, NULL, &out));
  dmi_slice_drop(&msg.list);
  step_end(w, page, &out);
}

/* A page of which the ownership is on its way here. It is counted. */
static struct dmi_page *asked_for(struct world *w) {
  struct dmi_page *page;
  known(w, 0, 2);
  page = record(w, &w->at[0].map, 0, true);
  assert_int_equal(write_exclusive(w, page), DMI_MSG_OWN);
  return page;
}

/* The ownership arrives when all other pages have been offered: the page goes to 3, which has
 * promised memory for it. */
static void granted_while_leaving(void **state) {
  struct world *w = *state;
  struct dmi_page *page = asked_for(w);
  leaves_with_promise(w);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_PAGES);
  assert_int_equal(offered_to(w, 0), 0);
  granted(w, page, 0);
  assert_int_equal(offered_to(w, 0), 3);
  begin_anew(&w->out);
}

/* The write waits for 2, which has a copy, so the page has no bytes yet; but it will have some. */
static void granted_with_a_copy(void **state) {
  struct world *w = *state;
  struct dmi_page *page = asked_for(w);
  leaves_with_promise(w);
  granted(w, page, 2);
  assert_null(page->frame);
  assert_int_equal(offered_to(w, 0), 3);
  frozen_and_resumed(w, page); /* 2 need not answer any more */
  begin_anew(&w->out);
}

/* It arrives before the pages to offer are collected: the page is offered once all the same. */
static void granted_before_the_pages(void **state) {
  struct world *w = *state;
  struct dmi_page *page = asked_for(w);
  gets_promise(w);
  assert_true(dmi_handover_go_on(w->handover, &w->out));
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_HOMES);
  granted(w, page, 0);
  assert_int_equal(offered_to(w, 0), 3);
  (void)go_on(w);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_PAGES);
  assert_int_equal(offered_to(w, 0), 0);
  begin_anew(&w->out);
}

/* When its pages are counted it comes to own no others, until it is known that it stays. */
static void counted(void **state) {
  static const uint32_t uid[] = {2};
  struct world *w = *state;
  struct dmi_page *page;
  struct dmi_act act;
  known(w, 0, 2);
  page = record(w, &w->at[0].map, 0, true);
  assert_int_equal(write_exclusive(w, page), DMI_MSG_OWN);
  granted(w, page, 0);
  dmi_handover_view(w->handover, uid, 1);
  dmi_handover_begin(w->handover, 2, &w->out);
  (void)go_on(w);
  assert_int_equal(next(w, DMI_ACT_SEND).msg.type, DMI_SVC_CAPACITY_ASK);
  assert_int_equal(write_exclusive(w, record(w, &w->at[0].map, 1, true)), DMI_MSG_PUT);
  assert_true(list(w, 3, DMI_MSG_TAKE, 0, (struct dmi_tail){2, 0, 0}, 0));
  act = next(w, DMI_ACT_SEND);
  assert_int_equal(act.msg.type, DMI_MSG_REFUSE_PAGE);
  dmi_slice_drop(&act.msg.list);
  report(w, 2, 1, 0);
  (void)go_on(w);
  (void)next(w, DMI_ACT_STAYS);
  assert_int_equal(write_exclusive(w, record(w, &w->at[0].map, 3, true)), DMI_MSG_OWN);
  assert_true(list(w, 3, DMI_MSG_TAKE, 0, (struct dmi_tail){4, 0, 0}, 0));
  (void)next(w, DMI_ACT_TAKEN);
  no_more(w);
}

/* There is no other process: it is drained and keeps everything.  When one joins, it hands over.
 */
static void no_heir_at_first(void **state) {
  struct world *w = *state;
  known(w, 0, 1);
  dmi_handover_begin(w->handover, 0, &w->out);
  (void)next(w, DMI_ACT_DRAINED);
  assert_int_equal(go_on(w), 0);
  assert_int_equal(atomic_load(&w->at[0].map.home), 1);
  dmi_handover_begin(w->handover, 2, &w->out);
  assert_true(go_on(w) > 0);
  assert_int_equal(atomic_load(&w->at[0].map.home), 2);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_PAGES);
}

/* It kept its pages; the heir that came then is lost, and again there is none. */
static void heir_lost_and_none(void **state) {
  struct world *w = *state;
  const dmi_uid_t heir = 2;
  known(w, 0, 1);
  dmi_handover_begin(w->handover, 0, &w->out);
  (void)next(w, DMI_ACT_DRAINED);
  dmi_handover_begin(w->handover, heir, &w->out);
  dmi_handover_lost(w->handover, &heir, 1, &w->out);
  dmi_handover_begin(w->handover, 0, &w->out);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_NO_HEIR);
  (void)next(w, DMI_ACT_DRAINED);
  assert_int_equal(atomic_load(&w->at[0].map.home), 1);
}

/* Its heir has left, too, when it is drained; then the heir of that one is lost: it begins anew. */
static void heir_of_heir_lost(void **state) {
  struct world *w = *state;
  const dmi_uid_t last = 3;
  known(w, 0, 2);
  dmi_handover_begin(w->handover, 2, &w->out);
  (void)go_on(w);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_DRAINED);
  dmi_handover_removed(w->handover, 2, last);
  dmi_handover_lost(w->handover, &last, 1, &w->out);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_STAYS);
  dmi_handover_begin(w->handover, 4, &w->out);
  assert_int_equal(dmi_handover_state(w->handover), DMI_HANDOVER_ASKS);
  drop(&w->out);
}

/* A transition that is not in the table: this build of the core aborts. */
static void wrong_move(void **state) {
  struct world *w = *state;
  int status;
  pid_t pid;
  dmi_handover_begin(w->handover, 2, &w->out);
  assert_false(dmi_handover_may(dmi_handover_state(w->handover), DMI_HANDOVER_ASKS));
  pid = fork();
  if (pid == 0) {
    (void)!freopen("/dev/null", "w", stderr);
    signal(SIGABRT, SIG_DFL);
    dmi_handover_begin(w->handover, 2, &w->out);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(home_not_believed),
      TEST(hole_arrives),
      TEST(home_arrives_behind_a_loss),
      TEST(home_arrives),
      TEST(copy_of_nothing),
      TEST(forgotten),
      TEST(looked_up),
      TEST(looked_up_behind_a_loss),
      TEST(offered_behind_a_loss),
      TEST(offered_again),
      TEST(refused_late),
      TEST(counts_what_stalls),
      TEST(counts_again),
      TEST(granted_while_leaving),
      TEST(granted_with_a_copy),
      TEST(granted_before_the_pages),
      TEST(counted),
      TEST(beyond),
      TEST(not_too_much),
      TEST(no_heir_at_first),
      TEST(wrong_move),
      TEST(heir_lost_and_none),
      TEST(heir_of_heir_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
