/*
 * local.h - local objects of the API (DMI_local_barrier_t and the like): two words, by which a call
 * sees whether they were initialised, here, and not destroyed since.
 */
#ifndef DMI_API_LOCAL_H
#define DMI_API_LOCAL_H

#include <stddef.h>
#include <stdint.h>

enum dmi_local_kind { DMI_LOCAL_BARRIER = 1, DMI_LOCAL_GROUP, DMI_LOCAL_RWSET };

/* Another one in each OS process, in the bits that pointers do not use.  Set before there are
 * threads. */
extern uint64_t dmi_local_stamp;
void dmi_local_begin(void);

#define DMI_LOCAL_BITS ((UINT64_C(1) << 48) - 1) /* of a pointer */

/* The second word, without the stamp: no other bytes are likely to have it. */
static inline uint64_t dmi_local_check(int64_t pointer, enum dmi_local_kind kind) {
  return (~(uint64_t)pointer & DMI_LOCAL_BITS) ^ (uint64_t)kind;
}

/* What a local object of this kind stands for; NULL: it is none, or not one of this process. */
static inline void *dmi_local_get(const int64_t *word, enum dmi_local_kind kind) {
  if (!word || !word[0] || (uint64_t)word[1] != (dmi_local_check(word[0], kind) | dmi_local_stamp))
    return NULL;
  return (void *)(uintptr_t)word[0];
}

void dmi_local_make(int64_t *word, enum dmi_local_kind kind, void *object);
void dmi_local_end(int64_t *word);

/* DMI_EINVAL, with the reason why dmi_local_get gives NULL. */
int32_t dmi_local_why(const int64_t *word, enum dmi_local_kind kind);

#endif
