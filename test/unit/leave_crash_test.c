/*
 * leave_crash_test.c - leaves and a loss: that of the heir, or of the coordinator that was asked to
 * dismiss a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "member_crash.h"

/* ---- DMI_goodbye ----------------------------------------------------------------------------- */

/* 3 leaves with the heir 4, as DMI_goodbye has asked for. */
static struct dmi_member *dismissed(void) {
  struct dmi_member *m = member(2);
  dmi_member_goodbye(m, 5, peer_of(3).dmi_id, &out);
  leaves(m, 10, 3, 4);
  return m;
}

/* The coordinator is lost before it has answered, and the next one knows nothing of 3, which has
 * ended; or it ends before that one is asked. */
static void test_goodbye_and_a_loss(void **state) {
  const dmi_uid_t lost[] = {1, 3};
  struct dmi_member *m = dismissed();
  (void)state;
  crash_all(m, 11, 4, lost, 2);
  assert_null(sent(4, DMI_CTL_GOODBYE));
  assert_int_equal(result(), DMI_OK);
  dmi_member_check(m);
  end(m);
  m = dismissed();
  crash(m, 11, 4, 1);
  assert_non_null(sent(4, DMI_CTL_GOODBYE));
  m->unheard = false; /* RECOVER has come */
  answer(m, 4, 5, DMI_EMEMBER);
  assert_int_equal(result(), DMI_OK);
  end(m);
}

/* STATE of one that has left with this heir. */
static void give_state_of_left(struct dmi_member *m, uint32_t from, uint64_t number,
                               uint32_t heir) {
  static const struct told nothing;
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u8(&body, DMI_PHASE_LEFT);
  dmi_pack_u8(&body, DMI_STATE_OPENED | DMI_STATE_ASKED | DMI_STATE_LEFT);
  dmi_pack_u32(&body, heir);
  dmi_pack_u32(&body, 0);
  dmi_pack_u64(&body, 0); /* READY, resumed; heirs, notices, causes */
  dmi_pack_u64(&body, 0);
  dmi_pack_u64(&body, 0);
  dmi_pack_u32(&body, 0);
  pack_told(&body, &nothing);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

/* 3 and 4 have left, and the heir of one is lost, who was that of the other, too: none of them is
 * the heir of one that stays, as it may be gone soon.  And a leaver knows the heir of its heir. */
static void test_heirs_that_have_left(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  m->heir = 3;
  leaves(m, 10, 3, 1);
  assert_int_equal(m->heir, 1);
  m->heir = 0;
  leaves(m, 11, 4, 3);
  crash(m, 12, 2, 1);
  give_state_of_left(m, 3, 12, 1);
  give_state_of_left(m, 4, 12, 3);
  recover(m, 12);
  assert_int_equal(dmi_coord_find(m->coord, 3)->heir, 2);
  assert_int_equal(dmi_coord_find(m->coord, 4)->heir, 2);
  end(m);
}

/* ---- An heir that is lost -------------------------------------------------------------------- */

static bool leave_go(struct dmi_member *m, dmi_uid_t heir) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, heir);
  return give(m, 1, DMI_CTL_LEAVE_GO, 0, &body);
}

/* The heir is lost while the threads stop: nothing is handed to it. */
static void test_heir_lost_while_stopping(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  dmi_member_leave_asked(m, &out);
  assert_true(leave_go(m, 4));
  assert_int_equal(m->phase, DMI_PHASE_STOPPING);
  crash(m, 10, 1, 4);
  dmi_mout_clear(&out);
  dmi_member_stopped(m, true, &out);
  assert_int_equal(out.num, 0);
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
  assert_true(leave_go(m, 2));
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].type, DMI_MACT_START_DRAIN);
  assert_int_equal(out.act[0].uid, 2);
  end(m);
}

/* 4 was the coordinator, and the heir of 3, which owns nothing; it is drained, and has handed the
 * role over.  It does not part before 3 has answered LEAVE_GO, as that answer names it: in a view
 * without it 3 would have another heir. */
static void test_heir_parts_later(void **state) {
  (void)state;
  for (int refuses = 0; refuses < 2; refuses++) {
    struct dmi_member *m = successor();
    struct dmi_record *leaver = dmi_coord_find(m->coord, 3), *heir = dmi_coord_find(m->coord, 4);
    struct dmi_pack body;
    leaver->life = DMI_LIFE_LEAVING;
    leaver->vital = false;
    leaver->heir = 4;
    heir->life = DMI_LIFE_DRAINED;
    heir->heir = 2;
    dmi_mout_clear(&out);
    dmi_member_may_change(m, &out);
    assert_null(sent(3, DMI_CTL_VIEW));
    if (refuses) {
      struct dmi_msg no = {.type = DMI_CTL_LEAVE_NO, .member = {.op = 4, .error = DMI_EBUSY}};
      dmi_mout_clear(&out);
      assert_true(dmi_member_message(m, 3, &no, &out));
    } else {
      dmi_pack_init(&body);
      dmi_pack_u32(&body, 0); /* results */
      assert_true(give(m, 3, DMI_CTL_DRAINED, 4, &body));
    }
    assert_int_equal(leaver->life, refuses ? DMI_LIFE_CLOSING : DMI_LIFE_DRAINED);
    assert_non_null(sent(3, DMI_CTL_VIEW));
    dmi_member_check(m);
    end(m);
  }
}

/* LEAVE_GO with another heir begins the leave anew, as the first one did. */
static void test_leave_begins_anew(void **state) {
  struct dmi_member *m = successor();
  struct dmi_record *leaver = dmi_coord_find(m->coord, 3);
  (void)state;
  leaver->life = DMI_LIFE_LEAVING;
  leaver->heir = 4;
  leaver->no_capacity = true;
  m->coord->capacity_changes = 5;
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  leaver = dmi_coord_find(m->coord, 3);
  assert_non_null(sent(3, DMI_CTL_LEAVE_GO));
  assert_int_equal(leaver->heir, 2);
  assert_false(leaver->no_capacity);
  assert_int_equal(leaver->capacity_changes, m->coord->capacity_changes);
  end(m);
}

/* STATE of one that has asked to leave, and found no memory. */
static void give_state_without_memory(struct dmi_member *m, uint32_t from, uint64_t number) {
  static const struct told nothing;
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u8(&body, DMI_PHASE_JOINED);
  dmi_pack_u8(&body, DMI_STATE_OPENED | DMI_STATE_ASKED | DMI_STATE_NO_CAPACITY);
  for (int i = 0; i < 4; i++)
    dmi_pack_u64(&body, 0); /* heir, leaver; READY; resumed; heirs, notices */
  dmi_pack_u32(&body, 0);   /* causes */
  pack_told(&body, &nothing);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

/* The program is told once more that 3 wants to leave: there may be memory since, and only the lost
 * coordinator would have known. */
static void test_memory_and_a_loss(void **state) {
  (void)state;
  for (int given = 0; given < 2; given++) {
    struct dmi_member *m = member(2);
    uint32_t num = 0;
    crash(m, 10, 2, 1);
    if (given) *DMI_LIST_ADD(&m->coord->got) = (struct dmi_got){3, DMI_CLOSE};
    give_state_without_memory(m, 3, 10);
    give_state(m, 4, 10);
    recover(m, 10);
    for (uint32_t i = 0; i < m->coord->notices.num; i++)
      num += m->coord->notices.at[i].uid == 3 && m->coord->notices.at[i].notice.state == DMI_CLOSE;
    assert_int_equal(num, 1);
    end(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_goodbye_and_a_loss),       cmocka_unit_test(test_heirs_that_have_left),
      cmocka_unit_test(test_heir_lost_while_stopping), cmocka_unit_test(test_leave_begins_anew),
      cmocka_unit_test(test_heir_parts_later),         cmocka_unit_test(test_memory_and_a_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
