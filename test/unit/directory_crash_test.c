/*
 * directory_crash_test.c - the directory of mappings behind a crash view (core/directory_crash.c):
 * it is made of what the members know, and each member is told the homes that it needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "member_crash.h"

static struct dmi_entry looked_up(struct dmi_member *m, uint64_t addr) {
  const struct dmi_entry *found = dmi_directory_find(m->coord, addr);
  return found ? *found : (struct dmi_entry){0};
}

/* The directory is made of what the members know: A's home lives, B's was the lost coordinator; C
 * is known to one that has forgotten it, and is unmapped.  The heir of B, which does not know it,
 * is told. */
static void test_directory_made_anew(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_mact *act;
  const struct told three = {.limit = LIMIT,
                             .mapping = {{A, 4096, 2, 3, 0}, {B, 64, 9, 1, 5}, {C, 8, 1, 4, 0}}},
                    four = {.limit = A, .forgotten = C, .mapping = {{A, 4096, 2, 3, 0}}};
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  assert_true(give(m, 3, DMI_CTL_BUSY, 1, NULL));
  give_state_of(m, 4, 10, &four);
  act = recovers();
  assert_int_equal(act->removed_num, 1);
  assert_int_equal(act->removed[0].uid, 1);
  assert_int_equal(act->removed[0].heir, 2);
  assert_int_equal(act->mapping_num, 2); /* and the allocator's */
  assert_true(act->mappings[0].base == B && act->mappings[0].tag == 5);
  assert_int_equal(act->mappings[0].home, 1);
  assert_int_equal(act->mappings[1].home, 1);
  assert_true(m->limit > LIMIT);
  recover(m, 10);
  assert_int_equal(looked_up(m, A).home, 3);
  assert_int_equal(looked_up(m, B).home, 2);
  assert_int_equal(looked_up(m, C).base, 0);
  assert_non_null(sent(3, DMI_CTL_FORGET));
  assert_non_null(sent(4, DMI_CTL_FORGET));
  assert_true(m->coord->next_base >= LIMIT);
  end(m);
}

/* ---- Homes that move ------------------------------------------------------------------------- */

/* STATE of one that is leaving. */
static void give_state_of_leaver(struct dmi_member *m, uint32_t from, uint32_t heir,
                                 const struct told *told) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 10);
  dmi_pack_u8(&body, DMI_PHASE_DRAINING);
  dmi_pack_u8(&body, DMI_STATE_OPENED | DMI_STATE_ASKED);
  dmi_pack_u32(&body, heir);
  dmi_pack_u32(&body, 0);
  dmi_pack_u64(&body, 0); /* READY, resumed; heirs, notices, causes */
  dmi_pack_u64(&body, 0);
  for (int i = 0; i < 3; i++)
    dmi_pack_u32(&body, 0);
  pack_told(&body, told);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

/* The mappings in the RECOVER to `uid`: their number. */
static uint32_t told_mappings(uint32_t uid, struct dmi_unpack *body) {
  struct dmi_mact *act = sent(uid, DMI_CTL_RECOVER);
  assert_non_null(act);
  dmi_unpack_init(body, &act->msg.body);
  for (int i = 0; i < 3; i++)
    (void)dmi_unpack_u64(body); /* view; what is carried; number of those that are lost, uid 1 */
  (void)dmi_unpack_u32(body);   /* its heir */
  (void)dmi_unpack_u64(body);   /* limit */
  return dmi_unpack_count(body, DMI_MAPPING_BYTES);
}

/* The last one is `*entry`. */
static uint32_t recover_tells(uint32_t uid, struct dmi_entry *entry) {
  struct dmi_unpack body;
  uint32_t num = told_mappings(uid, &body);
  for (uint32_t i = 0; i < num; i++)
    dmi_member_unpack_mapping(&body, entry);
  return num;
}

/* The home of A; 0: RECOVER does not say. */
static dmi_uid_t home_told(uint32_t uid) {
  struct dmi_unpack body;
  for (uint32_t num = told_mappings(uid, &body); num; num--) {
    struct dmi_entry entry;
    dmi_member_unpack_mapping(&body, &entry);
    if (entry.base == A) return entry.home;
  }
  return 0;
}

/* 3 has got the home of A from the lost 1; 4 still takes 1 for it, and is told. */
static void test_home_that_moved(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.mapping = {{A, 4096, 2, 3, 0}}},
                    four = {.mapping = {{A, 4096, 2, 1, 0}}};
  struct dmi_entry entry;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 4, 10, &four);
  give_state_of(m, 3, 10, &three);
  assert_int_equal(recover_tells(4, &entry), 1);
  assert_true(entry.base == A);
  assert_int_equal(entry.home, 3);
  assert_int_equal(looked_up(m, A).home, 3);
  end(m);
}

static bool one_mapping(void *entry, uint64_t above, struct dmi_entry *next, dmi_uid_t *before) {
  *next = *(const struct dmi_entry *)entry;
  *before = next->home;
  return above < next->base;
}

/* 3 has taken the crash view before the answer to its DMI_mmap came; this process has looked the
 * mapping up, and stays the coordinator: 3 is its home, though it does not say so. */
static void test_home_that_is_told(void **state) {
  struct dmi_member *m = successor();
  struct dmi_entry mapping;
  struct dmi_pack body;
  (void)state;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 4096);
  dmi_pack_u64(&body, 2);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MMAP, 5, &body));
  assert_int_equal(m->coord->mappings.num, 1);
  mapping = m->coord->mappings.at[0];
  assert_int_equal(mapping.home, 3);
  m->env.next_mapping = one_mapping;
  m->env.mapping_arg = &mapping;
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  assert_int_equal(looked_up(m, mapping.base).home, 3);
  end(m);
}

/* The homes that 3 and 4 are told of A, 1 being lost, when they say this; 0: none. */
static void homes_told(const struct told *three, const struct told *four, dmi_uid_t told[2],
                       dmi_uid_t home) {
  struct dmi_member *m = member(2);
  m->resumed = 7;
  crash(m, 10, 2, 1);
  give_state_of(m, 4, 10, four);
  give_state_of(m, 3, 10, three);
  for (uint32_t i = 0; i < 2; i++)
    told[i] = home_told(3 + i);
  assert_int_equal(looked_up(m, A).home, home);
  end(m);
}

/* In a recovery before this one the home of A has moved from the lost 1 to 3. 4 takes an earlier
 * one for it, and must report its pages: so the home moves once more, unless some have resumed. */
static void test_home_moved_in_a_void_recovery(void **state) {
  struct told three = {.resumed = 7, .lost = 1, .heir = 3, .mapping = {{A, 4096, 2, 3, 0}}};
  struct told four = {.resumed = 7, .lost = 1, .heir = 3, .mapping = {{A, 4096, 2, 2, 0}}};
  dmi_uid_t told[2];
  (void)state;
  three.moved_from = 1;
  homes_told(&three, &four, told, 3);
  assert_int_equal(told[0], 0);
  assert_int_equal(told[1], 1);
  three.ready = 8; /* one that 4 and 2 were not ready in */
  homes_told(&three, &four, told, 3);
  assert_int_equal(told[1], 1);
  four.resumed = 8;
  homes_told(&three, &four, told, 3);
  assert_int_equal(told[0], 0);
  assert_int_equal(told[1], 3);
}

/* ... and 3 had not known the mapping then.  It is not lost with those that told it. */
static void test_home_that_was_not_known(void **state) {
  struct told three = {.resumed = 7, .lost = 1, .heir = 3, .mapping = {{A, 4096, 2, 3, 0}}};
  const struct told alone = {.resumed = 7, .lost = 1, .heir = 3},
                    knows = {.resumed = 7, .mapping = {{A, 4096, 2, 1, 0}}};
  dmi_uid_t told[2];
  (void)state;
  three.moved_from = NOBODY;
  homes_told(&three, &knows, told, 3);
  assert_int_equal(told[0], 1); /* it is arriving there, so it stays */
  assert_int_equal(told[1], 0);
  homes_told(&three, &alone, told, 3);
  assert_int_equal(told[0], 0);
}

/* 1 was handing A over to 3, as 4 has heard, and is lost; nothing of that has arrived at 3. */
static void test_home_that_never_came(void **state) {
  const struct told three = {.resumed = 7}, four = {.mapping = {{A, 4096, 2, 3, 0}}};
  dmi_uid_t told[2];
  (void)state;
  homes_told(&three, &four, told, 2);
  assert_int_equal(told[1], 1);
}

/* The directory has A, whose home is 4, and nobody else knows it.  2 stays the coordinator; the
 * heir of those that are lost is 3, as 2 has asked to leave. */
static struct dmi_member *with_home(void) {
  struct dmi_member *m = successor();
  *DMI_LIST_ADD(&m->coord->mappings) = (struct dmi_entry){A, 4096, 2, 4, 0};
  m->coord->next_base = B;
  dmi_coord_find(m->coord, 2)->life = DMI_LIFE_CLOSING;
  return m;
}

/* 4 is lost, and another loss comes before 3 has heard that it is the home now: it hears it then.
 */
static void test_heir_that_was_not_told(void **state) {
  struct dmi_member *m = with_home();
  const struct told nothing = {.resumed = 10};
  (void)state;
  for (uint64_t number = 11; number <= 12; number++) {
    if (number == 11) crash(m, number, 2, 4);
    if (number == 12) agree(m, number, 2, NULL, 0), dmi_member_viewed(m, &out);
    give_state_of(m, 3, number, &nothing);
    assert_int_equal(home_told(3), 4);
    assert_int_equal(looked_up(m, A).home, 3);
  }
  recover(m, 12);
  assert_int_equal(looked_up(m, A).home, 3);
  assert_int_equal(m->coord->homes.num, 0);
  end(m);
}

/* 4 leaves, and has begun to hand A over to 3.  While all recover from another loss it is lost,
 * too, and HOME_BEGIN with it: 3 hears of A as the heir of a lost home. */
static void test_home_lost_on_its_way(void **state) {
  struct dmi_member *m = with_home();
  const struct told nothing = {.resumed = 10},
                    four = {.resumed = 10, .mapping = {{A, 4096, 2, 3, 0}}, .moved_from = 4};
  (void)state;
  dmi_coord_find(m->coord, 4)->life = DMI_LIFE_LEAVING;
  dmi_coord_find(m->coord, 4)->heir = 3;
  agree(m, 11, 2, NULL, 0);
  dmi_member_viewed(m, &out);
  give_state_of(m, 3, 11, &nothing);
  give_state_of(m, 4, 11, &four);
  assert_int_equal(looked_up(m, A).home, 3);
  crash(m, 12, 2, 4);
  give_state_of(m, 3, 12, &nothing);
  assert_int_equal(home_told(3), 4);
  end(m);
}

/* 4 leaves with the heir 3, where the home of A has not arrived completely: 3 still takes 4 for it.
 * It is not told: HOME_BEGIN, which is under way, would find a home there. */
static void test_home_on_its_way(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.mapping = {{A, 4096, 2, 4, 0}}},
                    four = {.mapping = {{A, 4096, 2, 3, 0}}, .moved_from = 4};
  struct dmi_entry entry;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  give_state_of_leaver(m, 4, 3, &four);
  assert_int_equal(recover_tells(3, &entry), 0);
  assert_int_equal(looked_up(m, A).home, 3);
  end(m);
}

/* 4 leaves with the heir 3, which it takes for the home of A, as all do: the lost 1 had told that
 * in a recovery, and was giving the home to 3, where nothing of it has arrived. */
static void test_home_of_the_same_heir(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.resumed = 7}, four = {.mapping = {{A, 4096, 2, 3, 0}}};
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  give_state_of_leaver(m, 4, 3, &four);
  assert_int_equal(home_told(4), 1);
  end(m);
}

/* 3 has left with the heir 4, and takes it for the home of A; but 4 is giving that to 2. */
static void test_home_that_is_handed_on(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.mapping = {{A, 4096, 2, 4, 0}}},
                    four = {.mapping = {{A, 4096, 2, 2, 0}}, .moved_from = 4};
  struct dmi_entry entry;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of_leaver(m, 3, 4, &three);
  give_state_of_leaver(m, 4, 2, &four);
  assert_int_equal(recover_tells(4, &entry), 0);
  assert_int_equal(recover_tells(3, &entry), 1);
  assert_true(entry.base == A && entry.home == 2);
  assert_int_equal(looked_up(m, A).home, 2);
  end(m);
}

/* The place of the message among what was sent. */
static uint32_t place(dmi_uid_t to, enum dmi_msg_type type) {
  const struct dmi_mact *act = sent(to, type);
  assert_non_null(act);
  return (uint32_t)(act - out.act);
}

/* 3 has forgotten A, and learns of it again as the heir of its lost home, before 4 has forgotten
 * it. It is asked once more, and before it resumes. */
static void test_forgotten_and_learnt_again(void **state) {
  struct dmi_member *m = successor();
  const struct told three = {.resumed = 10, .forgotten = DMI_FIRST_BASE}, four = {.resumed = 10};
  struct dmi_pack body;
  uint64_t base;
  (void)state;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 4096);
  dmi_pack_u64(&body, 2);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MMAP, 5, &body));
  base = m->coord->mappings.at[0].base;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, base);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MUNMAP, 6, &body));
  assert_non_null(sent(4, DMI_CTL_FORGET));
  assert_true(give_number(m, 3, DMI_CTL_FORGOT, base));
  crash_all(m, 11, 2, NULL, 0);
  assert_int_equal(base, three.forgotten);
  give_state_of(m, 3, 11, &three);
  give_state_of(m, 4, 11, &four);
  recover(m, 11);
  assert_true(place(3, DMI_CTL_FORGET) < place(3, DMI_CTL_RESUME));
  assert_null(sent(4, DMI_CTL_FORGET)); /* it has still to answer */
  dmi_member_forgot(m, base, &out);
  assert_true(give_number(m, 4, DMI_CTL_FORGOT, base));
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_true(give_number(m, 3, DMI_CTL_FORGOT, base));
  assert_non_null(sent(3, DMI_CTL_RESULT));
  end(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_directory_made_anew),
      cmocka_unit_test(test_home_that_moved),
      cmocka_unit_test(test_home_that_is_told),
      cmocka_unit_test(test_home_moved_in_a_void_recovery),
      cmocka_unit_test(test_home_that_was_not_known),
      cmocka_unit_test(test_home_that_never_came),
      cmocka_unit_test(test_heir_that_was_not_told),
      cmocka_unit_test(test_home_lost_on_its_way),
      cmocka_unit_test(test_home_on_its_way),
      cmocka_unit_test(test_home_that_is_handed_on),
      cmocka_unit_test(test_home_of_the_same_heir),
      cmocka_unit_test(test_forgotten_and_learnt_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
