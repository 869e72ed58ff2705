/*
 * board.h - threads of processes of one host that meet at a barrier: their arrivals are gathered in
 * memory which these processes share, and one of them sends them all as one ARRIVE.
 *
 * docs/barriers.md has the states, and what a killed or malicious process can do. Which arrivals
 * are sent together is a matter of speed only: a process without a board, or with another one,
 * meets the others all the same.
 */
#ifndef DMI_SYNC_BOARD_H
#define DMI_SYNC_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/syncop.h"

struct dmi_board; /* in shared memory; zero bytes at first */

#define DMI_BOARD_TABLES 64u /* barriers in use at a time */
#define DMI_BOARD_SEATS 512u /* processes at each of them */

/* A process's place at a barrier.  Used by one thread at a time. */
struct dmi_board_seat {
  struct dmi_board *board; /* NULL: none */
  uint64_t mark;           /* of this process: dmi_net_mark */
  uint32_t table, seat;
  bool given_up; /* who took its arrival may still write there */
};

/* What an arrival asks for: only equal ones are sent together. */
struct dmi_board_round {
  uint32_t pnum, losses; /* of struct dmi_arrive */
  int8_t kind;           /* core/reduce.h */
};

/* What the board needs from above. */
struct dmi_board_env {
  void *arg;
  int64_t patience; /* ns without an arrival, until one that waits is sent without being the last */
  /* Sends an ARRIVE, `input` as core/syncop.h has it, and waits until its round is over.  DMI_OK,
   * or an error. */
  int32_t (*send)(void *arg, const struct dmi_board_round *round, const unsigned char *input,
                  size_t size, struct dmi_arrived *answer);
  /* True if a process was lost since the arrival, as this process knows. */
  bool (*is_late)(void *arg, const struct dmi_board_round *round);
  /* True if the program is to end: who waits gets DMI_EEND. */
  bool (*ends)(void *arg);
  /* True if the process may still send. */
  bool (*lives)(void *arg, dmi_uid_t uid);
  /* True if the process of the mark has ended, so that it writes nothing any more. */
  bool (*ended)(void *arg, uint64_t mark);
  /* Before a thread sleeps: looks for a while, if that pays, whether *word is still `value`. */
  void (*look)(void *arg, const _Atomic uint64_t *word, uint64_t value);
};

size_t dmi_board_size(void);

/* A seat at this barrier, for the process that holds the mark.  False: none is free. */
bool dmi_board_sit(struct dmi_board *board, int64_t addr, uint64_t mark,
                   const struct dmi_board_env *env, struct dmi_board_seat *seat);
void dmi_board_rise(struct dmi_board_seat *seat, const struct dmi_board_env *env);
/* True if the process still has the seat, and others come to the same table. */
bool dmi_board_sits(const struct dmi_board_seat *seat);

/* Arrives with 8 bytes, and waits until the round is over.  DMI_OK: *answer is that of the round,
 * `taken` is 1, or 0: the round has another pnum.  DMI_EBROKEN: the process knows of the loss. */
int32_t dmi_board_meet(struct dmi_board_seat *seat, const struct dmi_board_round *round,
                       uint64_t value, const struct dmi_board_env *env, struct dmi_arrived *answer);

/* Any thread, after a loss, or when the program is to end: all that wait at this barrier look
 * again. */
void dmi_board_ring(const struct dmi_board_seat *seat);

#endif
