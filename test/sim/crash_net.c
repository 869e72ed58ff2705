/*
 * crash_net.c - the network of processes that agree: lanes in order, delays, cuts, connections that
 * end.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "crash_sim.h"
#include "msg/wire.h"

void sim_bad(struct sim *sim, const char *format, ...) {
  va_list args;
  if (sim->bad) return;
  sim->bad = true;
  va_start(args, format);
  vsnprintf(sim->why, sizeof(sim->why), format, args);
  va_end(args);
}

void sim_log(const struct sim *sim, const char *format, ...) {
  va_list args;
  if (!sim->verbose) return;
  printf("%9.3f ", (double)sim->now / MS);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
}

/* What a process says to agree with others; pulses are too many. */
void sim_log_said(const struct sim *sim, const struct sim_proc *proc,
                  const struct dmi_pulse_act *act) {
  if (act->msg.type <= DMI_CTL_PULSE_OK) return;
  sim_log(sim, "p%u sends %s to p%u: %llx %llx", proc->uid, dmi_wire_name(act->msg.type), act->uid,
          (unsigned long long)act->msg.word[0], (unsigned long long)act->msg.word[1]);
}

static void drop(struct sim_letter *letter) {
  dmi_slice_drop(&letter->msg.body);
  dmi_slice_drop(&letter->view.view.body);
}

/* A letter arrives behind those before it. */
void sim_letter(struct sim *sim, dmi_uid_t from, dmi_uid_t to, uint32_t at,
                struct sim_letter letter) {
  struct sim_lane *lane = &sim->lane[from][to][at];
  uint32_t most = rng_once_in(&sim->rng, 10) ? sim->slow * MS : 5 * MS;
  if (lane->over || !sim->proc[to].alive) {
    drop(&letter);
    return;
  }
  letter.at = sim->now + 50 + rng_below(&sim->rng, most);
  if (lane->num && lane->letter[lane->first + lane->num - 1].at > letter.at)
    letter.at = lane->letter[lane->first + lane->num - 1].at;
  if (lane->first && lane->first + lane->num == lane->capacity) {
    memmove(lane->letter, lane->letter + lane->first, lane->num * sizeof(letter));
    lane->first = 0;
  }
  if (lane->first + lane->num == lane->capacity) {
    lane->capacity = lane->capacity ? 2 * lane->capacity : 8;
    lane->letter = dmi_xalloc_again(lane->letter, lane->capacity, sizeof(letter));
  }
  lane->letter[lane->first + lane->num++] = letter;
}

struct sim_letter sim_take_letter(struct sim_lane *lane) {
  struct sim_letter letter = lane->letter[lane->first++];
  if (--lane->num == 0) lane->first = 0;
  return letter;
}

static uint64_t most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

bool sim_next_letter(struct sim *sim, uint64_t *at, struct sim_lane **next, dmi_uid_t *from,
                     dmi_uid_t *to) {
  bool found = false;
  for (dmi_uid_t a = 1; a < PROCS; a++) {
    for (dmi_uid_t b = 1; b < PROCS; b++) {
      for (uint32_t i = 0; i < LANES; i++) {
        struct sim_lane *lane = &sim->lane[a][b][i];
        uint64_t due;
        if (!lane->num) continue;
        due = most(lane->letter[lane->first].at, most(lane->cut, sim->proc[b].stopped));
        if (found && due >= *at) continue;
        found = true;
        *at = due;
        *next = lane;
        *from = a;
        *to = b;
      }
    }
  }
  return found;
}

/* Some of what was in flight does not arrive. */
void sim_lane_end(struct sim *sim, dmi_uid_t from, dmi_uid_t to) {
  struct sim_letter end = {.said = SAID_EOF};
  for (uint32_t i = LANE_PULSE; i <= LANE_DAEMON; i++) {
    struct sim_lane *lane = &sim->lane[from][to][i];
    while (lane->num && rng_once_in(&sim->rng, 2)) {
      drop(&lane->letter[lane->first + lane->num - 1]);
      lane->num--;
    }
    sim_letter(sim, from, to, i, end);
    lane->over = true;
  }
}

void sim_lane_lose(struct sim *sim, dmi_uid_t from) {
  for (dmi_uid_t to = 1; to < PROCS; to++) {
    struct sim_lane *lane = &sim->lane[from][to][LANE_PULSE];
    for (; lane->num; lane->num--)
      drop(&lane->letter[lane->first + lane->num - 1]);
  }
}

void sim_net_free(struct sim *sim) {
  for (dmi_uid_t a = 0; a < PROCS; a++) {
    for (dmi_uid_t b = 0; b < PROCS; b++) {
      for (uint32_t i = 0; i < LANES; i++) {
        struct sim_lane *lane = &sim->lane[a][b][i];
        while (lane->num) {
          struct sim_letter letter = sim_take_letter(lane);
          drop(&letter);
        }
        free(lane->letter);
      }
    }
  }
}

/* ---- Time ----------------------------------------------------------------------------------- */

dmi_ms_t sim_proc_now(const struct sim *sim, const struct sim_proc *proc) {
  return proc->offset + (dmi_ms_t)((double)sim->now * proc->rate / MS);
}

uint64_t sim_proc_wake(const struct sim *sim, const struct sim_proc *proc) {
  dmi_ms_t wake = proc->started ? dmi_pulse_wake(proc->pulse) : DMI_MS_NEVER;
  uint64_t at;
  if (!proc->alive || wake >= DMI_MS_NEVER) return UINT64_MAX;
  at = wake > proc->offset ? (uint64_t)((double)((wake - proc->offset) * MS) / proc->rate) + 1 : 0;
  while (proc->offset + (dmi_ms_t)((double)at * proc->rate / MS) < wake)
    at += 10;
  if (at < sim->now) at = sim->now;
  return at < proc->stopped ? proc->stopped : at;
}

bool sim_proc_runs(const struct sim *sim, const struct sim_proc *proc) {
  return proc->alive && proc->stopped <= sim->now;
}
