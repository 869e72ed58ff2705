/*
 * birth.h - which process of which machine this is, told to others so that those on the same
 * machine can see for certain that it has ended (docs/crashes.md, "proved dead").
 */
#ifndef DMI_BASE_BIRTH_H
#define DMI_BASE_BIRTH_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: unknown. */
struct dmi_birth {
  uint8_t boot[16]; /* of the machine: each start of its system has another one */
  uint64_t space;   /* of its pid namespace: where `pid` means something */
  uint64_t time;    /* of its time namespace: where `start` means something */
  uint32_t pid;
  uint64_t start; /* when it began, in ticks since boot: who has that pid later began later */
};

/* Of the calling process; all zero where /proc does not tell. */
void dmi_birth_find(struct dmi_birth *birth);

enum dmi_birth_look {
  DMI_BIRTH_ELSEWHERE, /* unknown: on another machine, in another namespace, or it cannot be looked
                          at now */
  DMI_BIRTH_LIVES, /* *fd is readable from its end on, to be closed by the caller; -1: the system
                      has no such descriptors */
  DMI_BIRTH_GONE   /* it has ended, for certain */
};
/* `mine`: what dmi_birth_find says here; it takes eight system calls, so it is not asked each time.
 */
enum dmi_birth_look dmi_birth_look(const struct dmi_birth *birth, const struct dmi_birth *mine,
                                   int *fd);

#endif
