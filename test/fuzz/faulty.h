/*
 * faulty.h - makes the process that it is linked into a faulty member: see member_fuzz.c.
 *
 * The linker puts __wrap_dmi_net_send in the place of dmi_net_send (-Wl,--wrap), so what the layers
 * above send can be left out, changed and added to; all below is the product's.
 */
#ifndef DMI_TEST_FAULTY_H
#define DMI_TEST_FAULTY_H

#include <stdint.h>

#define PROCESSES 3 /* of the program; their uids count from 1 */

/* Half of the runs do random things; the others one that chance would find late. */
enum attack {
  AT_RANDOM,     /* any of the above */
  GRANT_ZERO,    /* bytes that are said to be zero, and are there, and too few */
  GRANT_NODATA,  /* the same */
  DATA_ZERO,     /* the same */
  GRANT_HOLDERS, /* copies in a quarter of a million processes that are not there */
  OWN_BY_NOBODY, /* a page goes to a process that is not there, and is then asked for */
  HOME_STOLEN,   /* the home of a mapping in use is handed over by who has it not */
  HOME_INVENTED, /* the home of all addresses, with pages owned by nobody */
  FAIL_WITHOUT,  /* a READ has failed, without an error */
  TOO_MUCH,      /* for a coordinator that the other is not, and will not be */
  LOST_YOURSELF, /* the coordinator is told that it was lost */
  SEEN_LIES,     /* answers to nobody's questions, twice, of no kind, without an end */
  FIRST_ATTACK_OF_COORDINATOR,
  RESULT_EMPTY = FIRST_ATTACK_OF_COORDINATOR, /* a mapping whose pages have no bytes */
  RESULT_HOME,                                /* a mapping whose home is not there */
  RESULT_ELSEWHERE, /* a mapping that does not have the address that was looked up */
  VIEW_WITHOUT,     /* a view that removes the coordinator */
  VIEW_TWICE,       /* a view that adds a process twice */
  ACCEPT_WITHOUT,   /* a first view that the coordinator is not in */
  OUT_FOR_EVER,     /* wait for the LAST_REQUEST of a process that is not there */
  END_EARLY,        /* the program is over, while threads run */
  COORD_LIES,       /* the coordinator's state is changed as it is sent */
  ATTACKS
};

/* What the run with this number does. */
enum attack attack_of(uint64_t run);

/* From now on this process is faulty. It ends by itself, as after kill -9, some time after that has
 * shown. */
void be_faulty(uint64_t run);

/* The next random number. */
static inline uint64_t mix(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif
