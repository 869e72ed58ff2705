/*
 * local.c - see local.h.
 */
#include "api/local.h"

#include <unistd.h>

#include "base/error.h"
#include "dmi_api.h"

#define GONE INT64_C(0x646579707274736e) /* the second word of one that was destroyed */

uint64_t dmi_local_stamp;

void dmi_local_begin(void) {
  uint16_t stamp = 0;
  if (getentropy(&stamp, sizeof(stamp)) != 0) stamp = (uint16_t)getpid();
  dmi_local_stamp = (uint64_t)stamp << 48;
}

void dmi_local_make(int64_t *word, enum dmi_local_kind kind, void *object) {
  word[0] = (int64_t)(uintptr_t)object;
  word[1] = (int64_t)(dmi_local_check(word[0], kind) | dmi_local_stamp);
}

void dmi_local_end(int64_t *word) {
  word[0] = 0;
  word[1] = GONE;
}

int32_t dmi_local_why(const int64_t *word, enum dmi_local_kind kind) {
  static const struct {
    const char *name, *init;
  } kinds[] = {[DMI_LOCAL_BARRIER] = {"local barrier", "DMI_local_barrier_init"},
               [DMI_LOCAL_GROUP] = {"group", "DMI_group_init"},
               [DMI_LOCAL_RWSET] = {"local set", "DMI_local_rwset_init"}};
  const char *name = kinds[kind].name;
  if (!word) return dmi_because_so(DMI_EINVAL, "the pointer to the %s is NULL", name);
  if (!word[0] && word[1] == GONE)
    return dmi_because_so(DMI_EINVAL, "the %s has been destroyed", name);
  if (word[0] && ((uint64_t)word[1] & DMI_LOCAL_BITS) == dmi_local_check(word[0], kind))
    return dmi_because_so(DMI_EINVAL, "the %s was initialised in another process (%s)", name,
                          kinds[kind].init);
  return dmi_because_so(DMI_EINVAL, "the %s was never initialised (%s)", name, kinds[kind].init);
}
