/*
 * page_crash_test.c - one page of a process while the members recover from a loss: what is done
 * with each message and each operation (docs/crashes-pages.md, the tables).
 *
 * This process is 2; process 1 is the home and lives, 3 lives, 4 is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/page_crash.h"
#include "core/syncop.h"
#include "dmi_api.h"

#define PAGE 64u
#define MAP (UINT64_C(1) << 20)

struct world {
  struct dmi_core core;
  struct dmi_map map;
  struct dmi_page page;
  struct dmi_out out;
  bool lost, cut; /* 4 is no member any more; the CUT of 3 has come */
  uint32_t dropped, held;
  uint32_t origin; /* of the last of these */
  uint64_t op;
};

static bool is_member(void *arg, uint32_t uid) {
  const struct world *world = arg;
  return uid >= 1 && uid <= (world->lost ? 3u : 4u);
}

static bool is_cut(void *arg, uint32_t uid) {
  const struct world *world = arg;
  return world->cut && uid == 3;
}

static void dropped(void *arg, uint32_t origin, dmi_op_t op) {
  struct world *world = arg;
  world->dropped++;
  world->origin = origin;
  world->op = op.n;
}

static void held(void *arg, uint32_t origin, dmi_op_t op) {
  struct world *world = arg;
  world->held++;
  world->origin = origin;
  world->op = op.n;
}

static void begin(struct world *world, uint32_t home) {
  memset(world, 0, sizeof(*world));
  world->core = (struct dmi_core){.self = 2,
                                  .is_member = is_member,
                                  .is_cut = is_cut,
                                  .dropped = dropped,
                                  .held = held,
                                  .recover = world,
                                  .arg = world};
  world->map = (struct dmi_map){.base = MAP, .page_size = PAGE, .page_num = 1};
  atomic_init(&world->map.home, home);
  dmi_page_init(&world->core, &world->map, &world->page, 0);
  dmi_out_init(&world->out);
}

static void freeze(struct world *world) {
  world->lost = true;
  atomic_store(&world->core.frozen, true);
  dmi_page_freeze(&world->core, &world->page);
}

static void clear(struct world *world) {
  for (uint32_t i = 0; i < world->out.num; i++) {
    if (world->out.act[i].type == DMI_ACT_COMPLETE) continue;
    dmi_slice_drop(&world->out.act[i].msg.list);
    dmi_slice_drop(&world->out.act[i].msg.body);
  }
  world->out.num = 0;
}

static void end(struct world *world) {
  clear(world);
  dmi_page_check(&world->core, &world->page);
  dmi_page_fini(&world->core, &world->page);
  dmi_out_free(&world->out);
  assert_int_equal(dmi_frame_total(), 0);
}

static struct dmi_msg about(enum dmi_msg_type type, uint32_t origin) {
  struct dmi_msg msg = {.origin = origin, .map = MAP};
  msg.type = (uint8_t)type;
  return msg;
}

static void take(struct world *world, uint32_t from, struct dmi_msg *msg, struct dmi_req *own) {
  assert_true(dmi_page_message(&world->core, &world->page, from, msg, own, &world->out));
  dmi_page_check(&world->core, &world->page);
}

static void resume(struct world *world, struct dmi_page_mark mark) {
  atomic_store(&world->core.frozen, false);
  dmi_page_resume(&world->core, &world->page, &mark, &world->out);
  dmi_page_check(&world->core, &world->page);
}

static const struct dmi_act *sent(const struct world *world, uint8_t type) {
  for (uint32_t i = 0; i < world->out.num; i++) {
    const struct dmi_act *act = &world->out.act[i];
    if (act->type == DMI_ACT_SEND && act->msg.type == type) return act;
  }
  return NULL;
}

static bool completed(const struct world *world, const struct dmi_req *req, int error) {
  for (uint32_t i = 0; i < world->out.num; i++) {
    const struct dmi_act *act = &world->out.act[i];
    if (act->type == DMI_ACT_COMPLETE && act->req == req) return req->error == error;
  }
  return false;
}

/* A copy of these bytes comes. */
static void copy_comes(struct world *world, uint32_t from, uint64_t version, char byte) {
  static unsigned char dst[PAGE];
  static struct dmi_req req;
  struct dmi_msg data = about(DMI_MSG_DATA, 2);
  req = (struct dmi_req){
      .type = DMI_REQ_READ, .kind = DMI_KIND_UPDATE, .op = {99}, .len = PAGE, .dst = dst};
  dmi_page_begin(&world->core, &world->page, &req, &world->out);
  data.data = (struct dmi_msg_data){
      .fetch = world->page.busy->fetch, .kind = DMI_KIND_UPDATE, .version = {version}};
  data.body.frame = dmi_frame_new(PAGE);
  memset(data.body.frame->bytes, byte, PAGE);
  data.body.ptr = data.body.frame->bytes;
  data.body.len = PAGE;
  take(world, from, &data, NULL);
  assert_true(completed(world, &req, DMI_OK));
  clear(world);
}

static unsigned char bytes[PAGE] = "own bytes";

static struct dmi_req put(uint64_t op) {
  return (struct dmi_req){
      .type = DMI_REQ_PUT, .op = {op}, .len = 8, .src = {.ptr = bytes, .len = 8}};
}

/* ---- Copies --------------------------------------------------------------------------------- */

static void copy_is_frozen_and_promoted(void **state) {
  struct world w;
  struct dmi_page_report report;
  (void)state;
  begin(&w, 1);
  copy_comes(&w, 4, 7, 'x');
  assert_true(dmi_page_readable(&w.core, &w.page));
  freeze(&w);
  assert_false(dmi_page_readable(&w.core, &w.page));
  assert_false(dmi_page_drop(&w.core, &w.page));
  assert_true(dmi_page_report(&w.core, &w.page, &report));
  assert_true(report.eligible && report.role == DMI_ROLE_NONE);
  assert_int_equal(report.version.n, 7);
  resume(&w, (struct dmi_page_mark){.promoted = true});
  assert_int_equal(w.page.role, DMI_ROLE_OWNER);
  assert_int_equal(w.page.version.n, 7);
  assert_int_equal(w.page.frame->bytes[5], 'x');
  assert_true(dmi_page_readable(&w.core, &w.page));
  assert_int_equal(atomic_load(&w.core.owned), 1);
  end(&w);
}

static void copy_is_dropped(void **state) {
  struct world w;
  (void)state;
  begin(&w, 1);
  copy_comes(&w, 4, 7, 'x');
  w.page.floor.n = 9;
  freeze(&w);
  resume(&w, (struct dmi_page_mark){0});
  assert_int_equal(w.page.copy, 0);
  assert_null(w.page.frame);
  assert_int_equal(w.page.floor.n, 0);
  assert_int_equal(w.page.hint, 0);
  end(&w);
}

/* Its bytes may be of before a write that D made for it. */
static void copy_of_a_writer_is_not_eligible(void **state) {
  struct world w;
  struct dmi_page_report report;
  struct dmi_req req = put(5);
  (void)state;
  begin(&w, 1);
  copy_comes(&w, 4, 7, 'x');
  dmi_page_begin(&w.core, &w.page, &req, &w.out);
  assert_non_null(sent(&w, DMI_MSG_PUT));
  clear(&w);
  freeze(&w);
  dmi_page_op_away(&w.page, &req);
  assert_false(dmi_page_report(&w.core, &w.page, &report));
  freeze(&w); /* at a second crash it is asked again: it may have been held by a living one */
  assert_true(dmi_page_report(&w.core, &w.page, &report));
  dmi_page_op_resume(&w.core, &w.page, &req, DMI_OP_AWAY, &w.out);
  assert_true(completed(&w, &req, DMI_ELOST));
  resume(&w, (struct dmi_page_mark){0});
  end(&w);
}

/* DONE of an owner that lives brings it up to date. */
static void done_is_an_answer_as_ever(void **state) {
  struct world w;
  struct dmi_page_report report;
  struct dmi_req req = put(5);
  struct dmi_msg done = about(DMI_MSG_DONE, 2);
  (void)state;
  begin(&w, 1);
  copy_comes(&w, 3, 7, 'x');
  dmi_page_begin(&w.core, &w.page, &req, &w.out);
  clear(&w);
  freeze(&w);
  done.flags = DMI_F_APPLY;
  done.done = (struct dmi_msg_done){.op = {5}, .version = {8}};
  take(&w, 3, &done, &req);
  assert_true(completed(&w, &req, DMI_OK));
  assert_true(dmi_page_report(&w.core, &w.page, &report));
  assert_true(report.eligible);
  assert_int_equal(report.version.n, 8);
  assert_int_equal(w.page.frame->bytes[0], 'o');
  resume(&w, (struct dmi_page_mark){0});
  end(&w);
}

/* R9: the void OWN that this mark waits for was dropped. */
static void stale_is_cleared(void **state) {
  struct world w;
  (void)state;
  begin(&w, 1);
  w.page.flags |= DMI_PAGE_STALE;
  atomic_fetch_add(&w.core.owned, 1);
  freeze(&w);
  resume(&w, (struct dmi_page_mark){0});
  assert_false(w.page.flags & DMI_PAGE_STALE);
  assert_int_equal(atomic_load(&w.core.owned), 0);
  end(&w);
}

/* ---- Own operations ------------------------------------------------------------------------- */

static void operations_wait_while_frozen(void **state) {
  struct world w;
  struct dmi_req write = put(5);
  unsigned char dst[PAGE];
  struct dmi_req read = {.type = DMI_REQ_GET, .op = {6}, .len = PAGE, .dst = dst};
  (void)state;
  begin(&w, 1);
  freeze(&w);
  dmi_page_begin(&w.core, &w.page, &write, &w.out);
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  assert_int_equal(w.out.num, 0);
  resume(&w, (struct dmi_page_mark){0});
  assert_non_null(sent(&w, DMI_MSG_PUT));
  assert_non_null(sent(&w, DMI_MSG_GET));
  assert_int_equal(w.page.busy->puts, 1);
  end(&w);
}

/* One that is held keeps the writer from its copy until its answer has come. */
static void held_dropped_away(void **state) {
  struct world w;
  struct dmi_req one = put(5), two = put(6), three = put(7);
  struct dmi_msg done = about(DMI_MSG_DONE, 2);
  (void)state;
  begin(&w, 1);
  dmi_page_begin(&w.core, &w.page, &one, &w.out);
  dmi_page_begin(&w.core, &w.page, &two, &w.out);
  dmi_page_begin(&w.core, &w.page, &three, &w.out);
  clear(&w);
  freeze(&w);
  dmi_page_op_resume(&w.core, &w.page, &one, DMI_OP_HELD, &w.out);
  dmi_page_op_resume(&w.core, &w.page, &two, DMI_OP_DROPPED, &w.out);
  dmi_page_op_resume(&w.core, &w.page, &three, DMI_OP_AWAY, &w.out);
  assert_int_equal(w.page.busy->puts, 1);
  assert_true(completed(&w, &three, DMI_ELOST));
  assert_false(completed(&w, &two, DMI_ELOST));
  clear(&w);
  resume(&w, (struct dmi_page_mark){0});
  assert_int_equal(sent(&w, DMI_MSG_PUT)->msg.access.op.n, 6);
  assert_int_equal(w.out.num, 1);
  assert_int_equal(w.page.busy->puts, 2);
  clear(&w);
  done.done = (struct dmi_msg_done){.op = {5}, .version = {1}};
  take(&w, 3, &done, &one);
  assert_true(completed(&w, &one, DMI_OK));
  assert_int_equal(w.page.busy->puts, 1);
  end(&w);
}

/* A read that waits for its fetch, and a WATCH, change nothing. */
static void reads_and_waits_begin_anew(void **state) {
  struct world w;
  unsigned char dst[PAGE];
  struct dmi_req read = {
      .type = DMI_REQ_READ, .kind = DMI_KIND_UPDATE, .op = {5}, .len = PAGE, .dst = dst};
  struct dmi_req watch = {.type = DMI_REQ_ATOMIC,
                          .kind = DMI_RMW_WATCH,
                          .op = {6},
                          .len = 8,
                          .dst = dst,
                          .src = {.ptr = bytes, .len = 8},
                          .sizes = {8, 0, 8}};
  dmi_fetch_t fetch;
  (void)state;
  begin(&w, 1);
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  dmi_page_begin(&w.core, &w.page, &watch, &w.out);
  fetch = w.page.busy->fetch;
  clear(&w);
  freeze(&w);
  dmi_page_op_resume(&w.core, &w.page, &watch, DMI_OP_AWAY, &w.out);
  assert_int_equal(w.out.num, 0);
  resume(&w, (struct dmi_page_mark){0});
  assert_non_null(sent(&w, DMI_MSG_READ));
  assert_non_null(sent(&w, DMI_MSG_ATOMIC));
  assert_int_not_equal(w.page.busy->fetch.n, fetch.n);
  end(&w);
}

/* DATA that is under way is used once. */
static void data_is_not_kept(void **state) {
  struct world w;
  unsigned char dst[PAGE];
  struct dmi_req read = {
      .type = DMI_REQ_READ, .kind = DMI_KIND_UPDATE, .op = {5}, .len = PAGE, .dst = dst};
  struct dmi_msg data = about(DMI_MSG_DATA, 2);
  (void)state;
  begin(&w, 1);
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  clear(&w);
  freeze(&w);
  data.flags = DMI_F_ZERO;
  data.data = (struct dmi_msg_data){.fetch = w.page.busy->fetch, .kind = DMI_KIND_UPDATE};
  take(&w, 3, &data, NULL);
  assert_true(completed(&w, &read, DMI_OK));
  assert_int_equal(w.page.copy, 0);
  resume(&w, (struct dmi_page_mark){0});
  end(&w);
}

/* The bytes [off, off + PAGE / 4) of the fetch in flight, from 3. */
static void block_comes(struct world *w, uint64_t off) {
  struct dmi_msg block = about(DMI_MSG_BLOCK, 2);
  block.block = (struct dmi_msg_block){
      .fetch = w->page.busy->fetch, .kind = DMI_KIND_UPDATE, .version = {1}, .off = off};
  block.flags = DMI_F_DELEGATED;
  block.body = dmi_slice_copy(bytes, PAGE / 4);
  take(w, 3, &block, NULL);
}

/* The CUT of 3 has overtaken its BLOCKs, and another loss makes its channel uncut: none of them is
 * put behind others. */
static void blocks_behind_a_cut(void **state) {
  struct world w;
  unsigned char dst[PAGE];
  struct dmi_req read = {
      .type = DMI_REQ_READ, .kind = DMI_KIND_UPDATE, .op = {5}, .len = PAGE, .dst = dst};
  (void)state;
  begin(&w, 1);
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  clear(&w);
  block_comes(&w, 0);
  freeze(&w);
  w.cut = true;
  block_comes(&w, PAGE / 4);
  assert_int_equal(w.out.num, 0);
  w.cut = false;
  freeze(&w);
  block_comes(&w, PAGE / 2);
  assert_false(completed(&w, &read, DMI_OK));
  w.cut = true;
  block_comes(&w, PAGE - PAGE / 4);
  assert_true(completed(&w, &read, DMI_OK));
  assert_int_equal(w.page.copy, 0);
  resume(&w, (struct dmi_page_mark){0});
  end(&w);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static struct dmi_msg put_of(uint32_t origin, uint64_t op) {
  struct dmi_msg msg = about(DMI_MSG_PUT, origin);
  msg.access = (struct dmi_msg_access){.op = {op}, .len = 8};
  msg.body = dmi_slice_copy(bytes, 8);
  return msg;
}

static void requests_are_dropped(void **state) {
  struct world w;
  struct dmi_msg msg = put_of(3, 11), get = about(DMI_MSG_GET, 3), own = about(DMI_MSG_OWN, 3);
  (void)state;
  begin(&w, 2);
  freeze(&w);
  take(&w, 3, &msg, NULL);
  assert_int_equal(w.dropped, 1);
  assert_int_equal(w.origin, 3);
  assert_int_equal(w.op, 11);
  get.access = (struct dmi_msg_access){.op = {12}, .len = 8};
  take(&w, 3, &get, NULL);
  take(&w, 3, &own, NULL);
  assert_int_equal(w.dropped, 1);
  assert_int_equal(w.out.num, 0);
  assert_int_equal(w.page.version.n, 0);
  resume(&w, (struct dmi_page_mark){0});
  assert_int_equal(w.page.role, DMI_ROLE_OWNER);
  end(&w);
}

/* What comes behind a CUT is of after its sender's RESUME. */
static void behind_a_cut(void **state) {
  struct world w;
  struct dmi_msg msg = put_of(3, 11);
  (void)state;
  begin(&w, 2);
  freeze(&w);
  w.cut = true;
  take(&w, 3, &msg, NULL);
  assert_int_equal(w.dropped, 0);
  assert_int_equal(w.out.num, 1);
  assert_int_equal(w.out.act[0].type, DMI_ACT_HOLD);
  assert_int_equal(w.out.act[0].to, 3);
  msg = w.out.act[0].msg;
  w.out.num = 0;
  resume(&w, (struct dmi_page_mark){0});
  take(&w, 3, &msg, NULL);
  assert_non_null(sent(&w, DMI_MSG_DONE));
  end(&w);
}

/* The owner's hits go on; its queue does not run, and a write at work is in effect at the end. */
static void owner(void **state) {
  struct world w;
  struct dmi_msg read = about(DMI_MSG_READ, 3), msg = put_of(1, 11), ack, more = put_of(3, 12);
  struct dmi_req own = put(5);
  (void)state;
  begin(&w, 2);
  read.read = (struct dmi_msg_read){.fetch = {1}, .kind = DMI_KIND_UPDATE};
  take(&w, 3, &read, NULL);
  take(&w, 1, &msg, NULL);
  assert_non_null(sent(&w, DMI_MSG_UPDATE));
  take(&w, 3, &more, NULL); /* queued */
  clear(&w);
  freeze(&w);
  assert_int_equal(w.dropped, 1);
  assert_int_equal(w.op, 12);
  assert_true(dmi_page_readable(&w.core, &w.page));
  dmi_page_held(&w.core, &w.page);
  assert_int_equal(w.held, 1);
  assert_int_equal(w.op, 11);
  ack = about(DMI_MSG_UPDATED, 3);
  ack.copy.version.n = 1;
  take(&w, 3, &ack, NULL);
  dmi_page_begin(&w.core, &w.page, &own, &w.out);
  assert_int_equal(w.out.num, 0);
  assert_int_equal(w.page.version.n, 0);
  resume(&w, (struct dmi_page_mark){0});
  assert_int_equal(w.page.version.n, 2);
  assert_int_equal(sent(&w, DMI_MSG_DONE)->to, 1);
  assert_null(sent(&w, DMI_MSG_RELEASE)); /* nobody has a copy */
  assert_true(completed(&w, &own, DMI_OK));
  end(&w);
}

/* A GRANT that is under way must arrive; the one that was lost is asked for again. */
static void grant(void **state) {
  for (int lost = 0; lost < 2; lost++) {
    struct world w;
    struct dmi_req req = {
        .type = DMI_REQ_EXCL, .op = {5}, .len = 8, .src = {.ptr = bytes, .len = 8}};
    struct dmi_msg msg = about(DMI_MSG_GRANT, 2);
    (void)state;
    begin(&w, 1);
    dmi_page_begin(&w.core, &w.page, &req, &w.out);
    assert_non_null(sent(&w, DMI_MSG_OWN));
    clear(&w);
    freeze(&w);
    if (!lost) {
      msg.flags = DMI_F_ZERO;
      take(&w, 3, &msg, NULL);
      assert_int_equal(w.page.role, DMI_ROLE_OWNER);
      assert_false(completed(&w, &req, DMI_OK));
    }
    resume(&w, (struct dmi_page_mark){0});
    assert_int_equal(sent(&w, DMI_MSG_OWN) != NULL, lost);
    assert_int_equal(completed(&w, &req, DMI_OK), !lost);
    end(&w);
  }
}

/* An operation was sent away before the page came here: it begins anew, here. */
static void away_from_the_owner(void **state) {
  struct world w;
  unsigned char dst[8] = "old";
  struct dmi_req get = {.type = DMI_REQ_GET, .op = {6}, .len = 8, .dst = dst};
  struct dmi_req own = {.type = DMI_REQ_EXCL, .op = {5}, .len = 8, .src = {.ptr = bytes, .len = 8}};
  struct dmi_msg msg = about(DMI_MSG_GRANT, 2);
  (void)state;
  begin(&w, 1);
  dmi_page_begin(&w.core, &w.page, &get, &w.out);
  assert_non_null(sent(&w, DMI_MSG_GET));
  dmi_page_begin(&w.core, &w.page, &own, &w.out);
  msg.flags = DMI_F_ZERO;
  take(&w, 3, &msg, NULL);
  assert_int_equal(w.page.role, DMI_ROLE_OWNER);
  assert_true(completed(&w, &own, DMI_OK));
  clear(&w);
  freeze(&w);
  dmi_page_op_resume(&w.core, &w.page, &get, DMI_OP_AWAY, &w.out);
  dmi_page_check(&w.core, &w.page); /* the step is over */
  assert_int_equal(w.out.num, 0);
  resume(&w, (struct dmi_page_mark){0});
  assert_true(completed(&w, &get, DMI_OK));
  assert_memory_equal(dst, bytes, 8);
  end(&w);
}

/* An operation that waits has come, and the GRANT behind it was lost. */
static void wait_without_grant(void **state) {
  struct world w;
  struct dmi_req req = {.type = DMI_REQ_EXCL, .op = {5}, .len = 8, .src = {.ptr = bytes, .len = 8}};
  struct dmi_msg wait = about(DMI_MSG_ATOMIC, 3);
  struct dmi_rmw_sizes sizes = {8, 0, 8};
  (void)state;
  begin(&w, 1);
  dmi_page_begin(&w.core, &w.page, &req, &w.out);
  clear(&w);
  wait.flags = DMI_F_WAITING;
  wait.atomic = (struct dmi_msg_atomic){.op = {11}, .len = 8, .rmw = DMI_RMW_WATCH};
  wait.list = dmi_slice_copy((const unsigned char *)&sizes, sizeof(sizes));
  wait.body = dmi_slice_copy(bytes, 8);
  take(&w, 4, &wait, NULL);
  assert_non_null(w.page.busy->waiting_ops.first);
  freeze(&w);
  dmi_page_held(&w.core, &w.page);
  assert_int_equal(w.held, 1);
  resume(&w, (struct dmi_page_mark){0});
  assert_null(w.page.busy->waiting_ops.first);
  assert_int_equal(sent(&w, DMI_MSG_ATOMIC)->to, 1);
  assert_int_equal(sent(&w, DMI_MSG_ATOMIC)->msg.origin, 3);
  assert_false(sent(&w, DMI_MSG_ATOMIC)->msg.flags & DMI_F_WAITING);
  end(&w);
}

/* ---- LOST pages ----------------------------------------------------------------------------- */

static void lost(void **state) {
  struct world w;
  struct dmi_req part = put(5), all = put(6);
  unsigned char dst[PAGE];
  struct dmi_req read = {.type = DMI_REQ_READ, .op = {7}, .len = PAGE, .dst = dst};
  struct dmi_msg msg = put_of(3, 11);
  (void)state;
  begin(&w, 2);
  w.page.role = DMI_ROLE_NONE; /* it went to 4 */
  freeze(&w);
  resume(&w, (struct dmi_page_mark){.lost = true, .home = true, .tail = 2});
  assert_false(dmi_page_readable(&w.core, &w.page));
  assert_false(dmi_page_writable(&w.core, &w.page));
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  assert_true(completed(&w, &read, DMI_ELOST));
  dmi_page_begin(&w.core, &w.page, &part, &w.out);
  assert_true(completed(&w, &part, DMI_ELOST));
  take(&w, 3, &msg, NULL);
  assert_int_equal(sent(&w, DMI_MSG_FAIL)->msg.fail.error, DMI_ELOST);
  all.len = all.src.len = PAGE;
  dmi_page_begin(&w.core, &w.page, &all, &w.out);
  assert_true(completed(&w, &all, DMI_OK));
  assert_true(dmi_page_readable(&w.core, &w.page));
  end(&w);
}

/* It travels with GRANT, and to a process that asked for no bytes, too. */
static void lost_travels(void **state) {
  struct world w, to;
  struct dmi_req all = {.type = DMI_REQ_EXCL, .op = {5}, .len = PAGE, .src = {NULL, bytes, PAGE}};
  struct dmi_msg own = about(DMI_MSG_OWN, 3), msg;
  (void)state;
  begin(&w, 2);
  w.page.role = DMI_ROLE_NONE;
  freeze(&w);
  resume(&w, (struct dmi_page_mark){.lost = true, .home = true, .tail = 2});
  own.flags = DMI_F_NODATA;
  take(&w, 3, &own, NULL);
  msg = sent(&w, DMI_MSG_GRANT)->msg;
  assert_true(msg.flags & DMI_F_LOST);
  assert_int_equal(w.page.role, DMI_ROLE_NONE);
  begin(&to, 1);
  dmi_page_begin(&to.core, &to.page, &all, &to.out);
  clear(&to);
  take(&to, 2, &msg, NULL);
  assert_true(completed(&to, &all, DMI_OK));
  assert_true(dmi_page_readable(&to.core, &to.page));
  clear(&to);
  dmi_slice_drop(&all.src);
  end(&to);
  end(&w);
}

/* ---- REVIVE ---------------------------------------------------------------------------------- */

static struct dmi_req revive(uint64_t op, uint64_t *answer) {
  *answer = 7;
  return (struct dmi_req){.type = DMI_REQ_ATOMIC,
                          .kind = DMI_RMW_REVIVE,
                          .op = {op},
                          .dst = answer,
                          .src = {.ptr = bytes},
                          .sizes = {0, 0, sizeof(*answer)}};
}

static struct dmi_msg revive_of(uint32_t origin, uint64_t op) {
  struct dmi_rmw_sizes sizes = {0, 0, 8};
  struct dmi_msg msg = about(DMI_MSG_ATOMIC, origin);
  msg.atomic = (struct dmi_msg_atomic){.op = {op}, .rmw = DMI_RMW_REVIVE};
  msg.list = dmi_slice_copy((const unsigned char *)&sizes, sizeof(sizes));
  return msg;
}

/* The number in the answer to this process. */
static uint64_t answered(const struct world *w) {
  const struct dmi_act *act = sent(w, DMI_MSG_DONE);
  uint64_t number;
  assert_non_null(act);
  assert_int_equal(act->msg.body.len, sizeof(number));
  memcpy(&number, act->msg.body.ptr, sizeof(number));
  return number;
}

/* The LOST page is zero, without any memory; what is written then, nobody who revives it again
 * takes away. */
static void revived_once(void **state) {
  struct world w;
  uint64_t answer;
  struct dmi_req first = revive(5, &answer), again = revive(6, &answer), write = put(7);
  struct dmi_req read = {.type = DMI_REQ_GET, .op = {8}, .len = PAGE};
  unsigned char dst[PAGE];
  struct dmi_msg msg = revive_of(3, 11);
  (void)state;
  read.dst = dst;
  begin(&w, 2);
  w.page.role = DMI_ROLE_NONE;
  freeze(&w);
  resume(&w, (struct dmi_page_mark){.lost = true, .home = true, .tail = 2});
  dmi_page_begin(&w.core, &w.page, &first, &w.out);
  assert_true(completed(&w, &first, DMI_OK));
  assert_int_equal(answer, 1);
  assert_null(w.page.frame);
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  assert_true(completed(&w, &read, DMI_OK));
  for (uint32_t i = 0; i < PAGE; i++)
    assert_int_equal(dst[i], 0);
  dmi_page_begin(&w.core, &w.page, &write, &w.out);
  assert_true(completed(&w, &write, DMI_OK));
  dmi_page_begin(&w.core, &w.page, &again, &w.out);
  assert_true(completed(&w, &again, DMI_OK));
  assert_int_equal(answer, 0);
  take(&w, 3, &msg, NULL);
  assert_int_equal(answered(&w), 0);
  assert_memory_equal(w.page.frame->bytes, bytes, 8);
  end(&w);
}

/* By another process, at one to which the page has moved since. */
static void revived_elsewhere(void **state) {
  struct world w, to;
  struct dmi_msg own = about(DMI_MSG_OWN, 3), msg = revive_of(3, 11), grant;
  struct dmi_req part = put(5);
  (void)state;
  begin(&w, 2);
  w.page.role = DMI_ROLE_NONE;
  freeze(&w);
  resume(&w, (struct dmi_page_mark){.lost = true, .home = true, .tail = 2});
  take(&w, 3, &own, NULL);
  grant = sent(&w, DMI_MSG_GRANT)->msg;
  begin(&to, 1);
  part.type = DMI_REQ_EXCL;
  dmi_page_begin(&to.core, &to.page, &part, &to.out);
  take(&to, 2, &grant, NULL);
  assert_true(completed(&to, &part, DMI_ELOST));
  clear(&to);
  take(&to, 3, &msg, NULL);
  assert_int_equal(answered(&to), 1);
  assert_true(dmi_page_readable(&to.core, &to.page));
  end(&to);
  end(&w);
}

/* One that had gone to the lost process is begun anew; and as it changes nothing of which there is
 * a copy, the copy here is exact all the same. */
static void revive_begins_anew(void **state) {
  struct world w;
  struct dmi_page_report report;
  uint64_t answer;
  struct dmi_req req = revive(5, &answer);
  (void)state;
  begin(&w, 1);
  copy_comes(&w, 4, 7, 'x');
  dmi_page_begin(&w.core, &w.page, &req, &w.out);
  assert_non_null(sent(&w, DMI_MSG_ATOMIC));
  clear(&w);
  freeze(&w);
  dmi_page_op_away(&w.page, &req);
  assert_true(dmi_page_report(&w.core, &w.page, &report));
  assert_true(report.eligible);
  dmi_page_op_resume(&w.core, &w.page, &req, DMI_OP_AWAY, &w.out);
  assert_int_equal(w.out.num, 0);
  resume(&w, (struct dmi_page_mark){0});
  assert_non_null(sent(&w, DMI_MSG_ATOMIC));
  end(&w);
}

/* ---- Without a lease ------------------------------------------------------------------------ */

static void paused(void **state) {
  struct world w;
  struct dmi_req read = {.type = DMI_REQ_GET, .op = {6}, .len = 8}, write = put(5);
  unsigned char dst[8];
  struct dmi_msg invalidate = about(DMI_MSG_INVALIDATE, 4);
  (void)state;
  read.dst = dst;
  begin(&w, 1);
  copy_comes(&w, 4, 7, 'x');
  dmi_page_pause(&w.page);
  assert_false(dmi_page_readable(&w.core, &w.page));
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  dmi_page_begin(&w.core, &w.page, &write, &w.out);
  assert_int_equal(w.out.num, 0);
  invalidate.copy.version.n = 8; /* messages are handled: nothing is dropped or held */
  take(&w, 4, &invalidate, NULL);
  assert_non_null(sent(&w, DMI_MSG_INVALIDATED));
  assert_int_equal(w.page.copy, 0);
  assert_int_equal(w.dropped, 0);
  assert_null(sent(&w, DMI_MSG_GET));
  freeze(&w); /* it is removed from the program's view, or another process is */
  resume(&w, (struct dmi_page_mark){0});
  assert_null(sent(&w, DMI_MSG_GET));
  freeze(&w);
  dmi_page_unpause(&w.core, &w.page, &w.out);
  assert_null(sent(&w, DMI_MSG_GET));
  resume(&w, (struct dmi_page_mark){0});
  assert_non_null(sent(&w, DMI_MSG_GET));
  assert_non_null(sent(&w, DMI_MSG_PUT));
  end(&w);
}

/* This process begins to leave while a read waits: then it brings no copy here. */
static void leaves_while_it_waits(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct world w;
    struct dmi_req read = {.type = DMI_REQ_READ, .op = {6}, .len = 8};
    unsigned char dst[8];
    read.dst = dst;
    begin(&w, 1);
    if (i == 0) dmi_page_pause(&w.page);
    if (i == 1) freeze(&w);
    dmi_page_begin(&w.core, &w.page, &read, &w.out);
    assert_int_equal(w.out.num, 0);
    atomic_store(&w.core.heir, 3);
    if (i == 0) dmi_page_unpause(&w.core, &w.page, &w.out);
    if (i == 1) resume(&w, (struct dmi_page_mark){0});
    assert_null(sent(&w, DMI_MSG_READ));
    assert_non_null(sent(&w, DMI_MSG_GET));
    end(&w);
  }
}

static void unpaused(void **state) {
  struct world w;
  struct dmi_req read = {.type = DMI_REQ_GET, .op = {6}, .len = 8};
  unsigned char dst[8];
  (void)state;
  read.dst = dst;
  begin(&w, 1);
  copy_comes(&w, 4, 7, 'x');
  dmi_page_pause(&w.page);
  dmi_page_begin(&w.core, &w.page, &read, &w.out);
  dmi_page_unpause(&w.core, &w.page, &w.out);
  assert_true(completed(&w, &read, DMI_OK));
  assert_int_equal(dst[3], 'x');
  end(&w);
  atomic_store(&w.core.paused, true);
  dmi_page_init(&w.core, &w.map, &w.page, 0);
  assert_true(w.page.flags & DMI_PAGE_PAUSED);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copy_is_frozen_and_promoted),
      cmocka_unit_test(copy_is_dropped),
      cmocka_unit_test(copy_of_a_writer_is_not_eligible),
      cmocka_unit_test(done_is_an_answer_as_ever),
      cmocka_unit_test(stale_is_cleared),
      cmocka_unit_test(operations_wait_while_frozen),
      cmocka_unit_test(held_dropped_away),
      cmocka_unit_test(reads_and_waits_begin_anew),
      cmocka_unit_test(data_is_not_kept),
      cmocka_unit_test(blocks_behind_a_cut),
      cmocka_unit_test(requests_are_dropped),
      cmocka_unit_test(behind_a_cut),
      cmocka_unit_test(owner),
      cmocka_unit_test(grant),
      cmocka_unit_test(wait_without_grant),
      cmocka_unit_test(lost),
      cmocka_unit_test(lost_travels),
      cmocka_unit_test(revived_once),
      cmocka_unit_test(revived_elsewhere),
      cmocka_unit_test(revive_begins_anew),
      cmocka_unit_test(away_from_the_owner),
      cmocka_unit_test(paused),
      cmocka_unit_test(unpaused),
      cmocka_unit_test(leaves_while_it_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
