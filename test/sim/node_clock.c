/*
 * node_clock.c - time, and the network of pulses: only with --agree.
 *
 * Each process has a clock of its own, and a pulse thread, which waits for nothing that its daemon
 * does: so whatever is due for it happens at its time, while messages of daemons arrive at any
 * time.  A process that is stopped does nothing; what arrives meanwhile waits.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

#define MS 1000u /* true time is in microseconds */

dmi_ms_t sim_clock_of(const struct node *node) {
  return node->clock_offset + (dmi_ms_t)((double)node->sim->clock * node->clock_rate / MS);
}

/* ---- Letters: what is in flight between pulse threads ---------------------------------------- */

/* It arrives behind those before it, of the same process to the same one. */
void sim_letter(struct node *from, struct node *to, struct sim_letter letter) {
  struct sim *sim = from->sim;
  uint32_t most = rng_once_in(&sim->rng, 10) ? 100 * MS : 5 * MS;
  letter.from = from;
  letter.to = to;
  letter.at = sim->clock + 50 + rng_below(&sim->rng, most);
  for (uint32_t i = 0; i < sim->letters.num; i++) {
    const struct sim_letter *before = &sim->letters.at[i];
    if (before->from == from && before->to == to && before->at > letter.at) letter.at = before->at;
  }
  *DMI_LIST_ADD(&sim->letters) = letter;
}

/* Some of what it sent last does not arrive; the ends of its connections are seen, and its end on
 * its own host. */
void sim_letters_end(struct node *node, bool killed) {
  struct sim *sim = node->sim;
  for (uint32_t i = sim->letters.num; killed && i-- > 0;) {
    if (sim->letters.at[i].from != node || !rng_once_in(&sim->rng, 2)) continue;
    dmi_slice_drop(&sim->letters.at[i].msg.body);
    DMI_LIST_DROP(&sim->letters, i);
  }
  for (uint32_t i = 0; i < sim->nodes; i++) {
    struct node *to = sim->all[i];
    if (to == node || !to->alive || !to->pulse) continue;
    if (killed) sim_letter(node, to, (struct sim_letter){.what = SIM_LETTER_BROKEN});
    if (to->host == node->host) sim_letter(node, to, (struct sim_letter){.what = SIM_LETTER_DEAD});
  }
}

void sim_letters_free(struct sim *sim) {
  for (uint32_t i = 0; i < sim->letters.num; i++)
    dmi_slice_drop(&sim->letters.at[i].msg.body);
  free(sim->letters.at);
}

static bool is_held_up(const struct sim_letter *letter) {
  const struct node *from = letter->from, *to = letter->to;
  bool cut = (to->cut & 1 && !from->cut) || (from->cut & 2 && !to->cut);
  return (cut && letter->what != SIM_LETTER_DEAD) || node_frozen(to);
}

/* ---- What is next ---------------------------------------------------------------------------- */

/* The next letter that arrives; `*at`: when.  NULL: none before that. */
static struct sim_letter *next_letter(struct sim *sim, uint64_t *at) {
  struct sim_letter *next = NULL;
  for (uint32_t i = 0; i < sim->letters.num; i++) {
    struct sim_letter *letter = &sim->letters.at[i];
    if (letter->at >= *at || is_held_up(letter)) continue;
    next = letter;
    *at = letter->at;
  }
  return next;
}

/* The true time at which its pulse thread is to look. */
static uint64_t wake_of(const struct node *node) {
  dmi_ms_t wake = node->alive && node->pulse ? dmi_pulse_wake(node->pulse) : DMI_MS_NEVER;
  dmi_ms_t offset = node->clock_offset;
  uint64_t at;
  if (wake >= DMI_MS_NEVER || node_frozen(node)) return UINT64_MAX;
  at = wake > offset ? (uint64_t)((double)((wake - offset) * MS) / node->clock_rate) + 1 : 0;
  while (offset + (dmi_ms_t)((double)at * node->clock_rate / MS) < wake)
    at += 10;
  return at;
}

/* Does what is due by `until`, which is moved to the first thing with `jump`.  False: nothing is.
 */
static bool next(struct sim *sim, uint64_t until, bool jump) {
  uint64_t at = jump ? UINT64_MAX : until + 1;
  struct sim_letter *letter = next_letter(sim, &at), taken;
  struct node *waker = NULL;
  for (uint32_t i = 0; i < sim->nodes; i++) {
    uint64_t wake = sim->all[i]->alive ? wake_of(sim->all[i]) : UINT64_MAX;
    if (wake >= at) continue;
    at = wake;
    waker = sim->all[i];
  }
  if (!waker && !letter) return false;
  if (at > sim->clock) sim->clock = at;
  if (waker) {
    sim_pulse_tick(waker);
    return true;
  }
  taken = *letter;
  DMI_LIST_DROP(&sim->letters, letter - sim->letters.at);
  if (taken.to->alive && taken.to->pulse) sim_pulse_letter(taken.to, &taken);
  dmi_slice_drop(&taken.msg.body);
  return true;
}

void sim_clock_step(struct sim *sim) {
  uint64_t until = sim->clock + rng_below(&sim->rng, 2 * sim->pace);
  while (!sim->bad && next(sim, until, false))
    ;
  if (sim->clock < until) sim->clock = until;
}

bool sim_clock_jump(struct sim *sim) {
  return next(sim, 0, true);
}
