/*
 * agree.h - parts of a struct dmi_member_survive for tests in which the agreement always says yes;
 * what they want to know of it they fill in themselves.
 */
#ifndef AGREE_H
#define AGREE_H

#include "core/member.h"

static inline uint64_t agree_may_change(void *arg) {
  (void)arg;
  return 1;
}

static inline bool agree_leased(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return true;
}

static inline dmi_uid_t agree_tie(void *arg) {
  (void)arg;
  return 1;
}

static inline void agree_all_taken(void *arg, uint64_t number) {
  (void)arg, (void)number;
}

#endif
