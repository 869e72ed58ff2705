/*
 * mapping_crash_test.c - calls about mappings and a loss: what the lost coordinator had begun or
 * completed, addresses that are reserved, lookups whose answers are out of date.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "member_crash.h"

static struct dmi_mact *again(struct dmi_member *m, dmi_uid_t from, enum dmi_msg_type type,
                              uint64_t a, uint64_t b) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, a);
  dmi_pack_u64(&body, b);
  if (type == DMI_CTL_MMAP) dmi_pack_u64(&body, 0);
  assert_true(give_flagged(m, from, type, 77, DMI_F_AGAIN, &body));
  return sent(from, DMI_CTL_RESULT);
}

/* Calls that the lost coordinator had begun, or completed. */
static void test_calls_again(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.forgotten = C,
                             .mapping = {{A, 4096, 2, 3, 0}},
                             .adopted = {{4, 77}, A}},
                    four = {.mapping = {{C, 8, 1, 3, 0}}};
  struct dmi_mact *act;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  give_state_of(m, 4, 10, &four);
  assert_true(give(m, 3, DMI_CTL_BUSY, 1, NULL));
  dmi_member_recovered(m, 10, 0, &out);
  assert_null(again(m, 4, DMI_CTL_MMAP, 4096, 2));
  assert_null(again(m, 4, DMI_CTL_MUNMAP, C, 0));
  assert_true(give_number(m, 3, DMI_CTL_READY, 10));
  assert_true(give_number(m, 4, DMI_CTL_READY, 10));
  act = sent(4, DMI_CTL_RESULT); /* of MMAP: it is not done twice */
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_OK);
  assert_int_equal(m->coord->mappings.num, 1);
  assert_int_equal(m->coord->forgets.num, 1); /* MUNMAP waits for FORGOT of all */
  assert_int_equal(m->coord->forgets.at[0].caller.uid, 4);
  end(m);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void map_much(struct dmi_member *m) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 4096);
  dmi_pack_u64(&body, (uint64_t)1 << 40);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MMAP, 5, &body));
  assert_null(sent(3, DMI_CTL_RESULT));
}

/* ... also if one that has not answered ends; its answer may come behind EXIT. */
static void test_reserve_and_exit(void **state) {
  struct dmi_member *m = successor();
  (void)state;
  map_much(m);
  assert_true(give_number(m, 3, DMI_CTL_RESERVED, m->limit));
  dmi_coord_find(m->coord, 4)->life = DMI_LIFE_EXITING;
  assert_true(give_number(m, 4, DMI_CTL_RESERVED, m->limit));
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_true(give(m, 4, DMI_CTL_EXITED, 0, NULL));
  assert_non_null(sent(3, DMI_CTL_RESULT));
  end(m);
}

/* Addresses beyond what all members know are given when they know it. */
static void test_reserve(void **state) {
  struct dmi_member *m = successor();
  struct dmi_mact *act;
  uint64_t limit = m->coord->limit;
  (void)state;
  map_much(m);
  act = sent(4, DMI_CTL_RESERVE);
  assert_non_null(act);
  assert_true(m->limit > limit);
  limit = m->limit;
  assert_true(give_number(m, 3, DMI_CTL_RESERVED, limit));
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_true(give_number(m, 4, DMI_CTL_RESERVED, limit));
  act = sent(3, DMI_CTL_RESULT);
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_OK);
  assert_true(m->coord->next_base <= limit);
  end(m);
}

/* A home that was to adopt a mapping is lost: the next one gets other addresses, and no more than
 * all members know. */
static void test_reserve_for_another_home(void **state) {
  struct dmi_member *m = successor();
  struct dmi_adopt *adopt = DMI_LIST_ADD(&m->coord->adopts);
  uint64_t limit = m->coord->limit;
  (void)state;
  *adopt = (struct dmi_adopt){.home = 4, .caller = {3, 77}, .mapping = {A, 4096, 2, 4, 0}};
  m->coord->next_base = limit;
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  assert_true(m->coord->next_base == limit);
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_non_null(sent(3, DMI_CTL_RESERVE));
  assert_true(give_number(m, 3, DMI_CTL_RESERVED, m->limit));
  assert_non_null(sent(3, DMI_CTL_RESULT));
  assert_int_equal(sent(3, DMI_CTL_RESULT)->msg.member.error, DMI_OK);
  assert_true(m->coord->next_base > limit && m->coord->next_base <= m->coord->limit);
  end(m);
}

/* ---- Lookups --------------------------------------------------------------------------------- */

/* The answer to a lookup names a home that this process knows is lost: it is asked again at RESUME.
 */
static void test_lookup_of_a_lost_home(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry old = {A, 4096, 2, 4, 0}, new = {A, 4096, 2, 3, 0};
  struct dmi_pack body;
  (void)state;
  dmi_member_lookup(m, 5, A, &out);
  crash(m, 10, 1, 4);
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &old);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  assert_int_equal(out.num, 0);
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
  assert_non_null(sent(1, DMI_CTL_LOOKUP));
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &new);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].type, DMI_MACT_RESULT);
  assert_int_equal(out.act[0].mapping.home, 3);
  end(m);
}

/* An answer that comes in a recovery was sent before the loss, and who is the home may have changed
 * since, though it lives: it is asked again at RESUME.  But this process itself is the home of what
 * DMI_mmap has made for it. */
static void test_home_told_in_a_recovery(void **state) {
  (void)state;
  for (dmi_uid_t home = 2; home <= 3; home++) {
    struct dmi_member *m = member(2);
    const struct dmi_entry old = {A, 4096, 2, home, 0};
    struct dmi_pack body;
    if (home == 2) dmi_member_mmap(m, 5, 4096, 2, &out);
    if (home == 3) dmi_member_lookup(m, 5, A, &out);
    crash(m, 10, 1, 4);
    dmi_pack_init(&body);
    dmi_member_pack_mapping(&body, &old);
    assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
    assert_int_equal(out.num, home == 2);
    assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
    assert_true(home == 2 ? !sent(1, DMI_CTL_LOOKUP) : sent(1, DMI_CTL_LOOKUP) != NULL);
    end(m);
  }
}

/* It names a home that has left, or is gone, as this process has heard by the agreement first: it
 * is asked again at once.  It is refused if that answer, too, names one, as the coordinator knows
 * the view by then; and so is a home that was never a member. */
static void test_lookup_of_a_home_that_left(void **state) {
  static const struct {
    dmi_uid_t home;
    bool good;
  } told[] = {{4, true}, {1000, true}, {0, false}, {DMI_NET_TEMP - 1, false}};
  (void)state;
  for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
    struct dmi_member *m = member(2);
    struct dmi_entry old = {A, 4096, 2, told[i].home, 0};
    struct dmi_pack body;
    dmi_member_lookup(m, 5, A, &out);
    dmi_member_find(m, 4)->left = true;
    dmi_pack_init(&body);
    dmi_member_pack_mapping(&body, &old);
    assert_int_equal(give(m, 1, DMI_CTL_RESULT, 5, &body), told[i].good);
    assert_int_equal(out.num, told[i].good);
    if (told[i].good) {
      assert_non_null(sent(1, DMI_CTL_LOOKUP));
      dmi_pack_init(&body);
      dmi_member_pack_mapping(&body, &old);
      assert_false(give(m, 1, DMI_CTL_RESULT, 5, &body));
      assert_int_equal(out.num, 0);
    }
    end(m);
  }
}

/* The same, and there is a second loss before RESUME: it is asked once, then. */
static void test_lookup_and_two_losses(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry old = {A, 4096, 2, 4, 0};
  struct dmi_pack body;
  (void)state;
  dmi_member_lookup(m, 5, A, &out);
  crash(m, 10, 1, 4);
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &old);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  crash(m, 11, 1, 3);
  assert_non_null(sent(1, DMI_CTL_STATE));
  assert_null(sent(1, DMI_CTL_LOOKUP));
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 11));
  assert_non_null(sent(1, DMI_CTL_LOOKUP));
  end(m);
}

/* The home of what DMI_mmap has made is lost, and nobody else knew the mapping: another is made. */
static void test_mmap_of_a_lost_home(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry old = {A, 4096, 2, 4, 0};
  const struct dmi_mact *asked;
  struct dmi_unpack request;
  struct dmi_pack body;
  (void)state;
  dmi_member_mmap(m, 5, 4096, 2, &out);
  crash(m, 10, 1, 4);
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &old);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
  assert_non_null(sent(1, DMI_CTL_LOOKUP));
  answer(m, 1, 5, DMI_EADDR);
  assert_int_equal(out.num, 1);
  asked = sent(1, DMI_CTL_MMAP);
  assert_non_null(asked);
  dmi_unpack_init(&request, &asked->msg.body);
  assert_int_equal(dmi_unpack_u64(&request), 4096);
  assert_int_equal(dmi_unpack_u64(&request), 2);
  answer(m, 1, 5, DMI_ENOMEM);
  assert_int_equal(out.act[0].type, DMI_MACT_RESULT);
  assert_int_equal(out.act[0].error, DMI_ENOMEM);
  end(m);
}

/* ---- What a member remembers ----------------------------------------------------------------- */

/* The end of the STATE that was sent. */
static struct dmi_known state_sent(dmi_uid_t to) {
  struct dmi_mact *act = sent(to, DMI_CTL_STATE);
  struct dmi_known known = {0};
  struct dmi_unpack body;
  assert_non_null(act);
  dmi_unpack_init(&body, &act->msg.body);
  (void)dmi_unpack_u64(&body); /* view */
  (void)dmi_unpack_u16(&body); /* phase, flags */
  for (int i = 0; i < 3; i++)
    (void)dmi_unpack_u64(&body); /* heir, leaver; READY; resumed */
  for (uint32_t num = dmi_unpack_count(&body, 8); num > 0; num--)
    (void)dmi_unpack_u64(&body); /* heirs */
  for (uint32_t num = dmi_unpack_count(&body, 8); num > 0; num--)
    (void)dmi_unpack_u64(&body);              /* notices */
  assert_int_equal(dmi_unpack_u32(&body), 0); /* causes */
  assert_true(dmi_directory_unpack_state(&known, 2, &body));
  return known;
}

/* What a member remembers of FORGETs and ADOPTs, in the STATE that it sends: until all have
 * answered a FORGET, and until what it has adopted is forgotten. */
static void test_member_remembers(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry mapping = {A, 4096, 2, 2, 0};
  const uint64_t bases[] = {B, C};
  struct dmi_known known = {0};
  struct dmi_pack body;
  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    dmi_pack_init(&body);
    dmi_pack_u64(&body, bases[i]);
    dmi_pack_u64(&body, 7 + i); /* with C: all have answered that of B */
    assert_true(give(m, 1, DMI_CTL_FORGET, 7 + i, &body));
  }
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &mapping);
  dmi_member_pack_caller(&body, &(struct dmi_caller){4, 77});
  assert_true(give(m, 1, DMI_CTL_ADOPT, 0, &body));
  assert_true(give_number(m, 1, DMI_CTL_RESERVE, LIMIT));
  crash(m, 10, 3, 1);
  known = state_sent(3);
  assert_int_equal(known.forgotten.num, 1);
  assert_true(known.forgotten.at[0] == C);
  assert_int_equal(known.adopted.num, 1);
  assert_true(known.adopted.at[0].base == A && known.adopted.at[0].caller.op == 77);
  assert_true(known.limit == LIMIT);
  dmi_directory_known_free(&known);
  end(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls_again),
      cmocka_unit_test(test_reserve),
      cmocka_unit_test(test_reserve_and_exit),
      cmocka_unit_test(test_reserve_for_another_home),
      cmocka_unit_test(test_member_remembers),
      cmocka_unit_test(test_lookup_of_a_lost_home),
      cmocka_unit_test(test_home_told_in_a_recovery),
      cmocka_unit_test(test_lookup_of_a_home_that_left),
      cmocka_unit_test(test_lookup_and_two_losses),
      cmocka_unit_test(test_mmap_of_a_lost_home),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
