/*
 * object_test.c - conditions and barriers mean the same in the core (core/syncop.c) and in
 * histories (history.c), whatever bytes there are: both run the same operations on the same bytes.
 *
 * Prints TAP.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/syncop.h"
#include "history.h"
#include "rng.h"

#define ROUNDS 400000u

static bool is_member(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return true;
}

/* Numbers at the borders of what counts, and of what an overwritten object has. */
static uint64_t number(struct rng *rng) {
  static const uint64_t some[] = {0, 1, 2, 3, UINT64_C(1) << 31, UINT64_C(1) << 52, UINT64_MAX};
  uint64_t one = some[rng_below(rng, 7)] + rng_below(rng, 3) - 1;
  return rng_once_in(rng, 8) ? rng_next(rng) : rng_once_in(rng, 8) ? one : one * DMI_SYNC_UNIT;
}

/* Losses, of which some are half of all numbers apart. */
static uint32_t losses(struct rng *rng) {
  return rng_below(rng, 4) * (UINT32_C(1) << 30) + rng_below(rng, 3);
}

static void draw_round(struct rng *rng, unsigned char *bytes) {
  struct dmi_round round = {rng_below(rng, 4) * DMI_SYNC_UNIT,
                            rng_below(rng, 9) * DMI_SYNC_UNIT,
                            rng_below(rng, 9),
                            rng_below(rng, 9),
                            rng_below(rng, 5),
                            losses(rng)};
  if (rng_once_in(rng, 4)) round.arrived = number(rng);
  if (rng_once_in(rng, 4)) round.generation = number(rng);
  if (rng_once_in(rng, 8)) round.pnum = (uint32_t)number(rng);
  memcpy(bytes, &round, sizeof(round));
}

/* An operation, and what the core does. */
struct run {
  struct dmi_req req;
  unsigned char in[40], before[40], after[40], answer[40];
  enum hist_kind kind;
  enum dmi_rmw_end end;
};

static void draw_arrive(struct rng *rng, struct run *run) {
  struct dmi_arrive head = {rng_below(rng, 5), losses(rng)};
  uint64_t num = rng_range(rng, 1, 3);
  draw_round(rng, run->before);
  memcpy(run->in, &head, sizeof(head));
  for (uint64_t i = 0; i < num; i++) {
    double value = rng_below(rng, 100);
    memcpy(run->in + 8 + 8 * i, &value, 8);
  }
  run->req.kind = DMI_RMW_ARRIVE;
  run->req.len = sizeof(struct dmi_round);
  run->req.sizes = (struct dmi_rmw_sizes){8 + 8 * num, 0, sizeof(struct dmi_arrived)};
  run->kind = HIST_ARRIVE;
}

static void draw_tickets(struct rng *rng, struct run *run) {
  uint64_t most = rng_once_in(rng, 2) ? rng_below(rng, 4) : number(rng);
  struct dmi_tickets tickets = {number(rng), number(rng)};
  memcpy(run->before, &tickets, sizeof(tickets));
  memcpy(run->in, &most, 8);
  run->req.kind = rng_once_in(rng, 2) ? DMI_RMW_SIGNAL : DMI_RMW_TICKET;
  run->req.len = sizeof(tickets);
  run->req.sizes = (struct dmi_rmw_sizes){run->req.kind == DMI_RMW_SIGNAL ? 8 : 0, 0,
                                          run->req.kind == DMI_RMW_SIGNAL ? 0 : 8};
  run->kind = run->req.kind == DMI_RMW_SIGNAL ? HIST_SIGNAL : HIST_TICKET;
}

static void run_core(struct run *run) {
  struct dmi_core core = {.self = 1, .is_member = is_member};
  struct dmi_await_round wait;
  struct dmi_arrive head;
  memcpy(&head, run->in, sizeof(head));
  if (run->kind == HIST_ARRIVE) atomic_store(&core.losses, head.losses); /* it knows of all */
  run->req.src = (struct dmi_slice){NULL, run->in, run->req.sizes.out1};
  memcpy(run->after, run->before, sizeof(run->after));
  run->end = dmi_syncop_run(&core, NULL, &run->req, run->after, run->answer);
  if (run->end != DMI_RMW_WAITS) return;
  memcpy(&wait, run->answer, sizeof(wait)); /* the answer of ROUND, as far as it is known */
  memset(run->answer, 0, sizeof(run->answer));
  memcpy(run->answer, &wait.taken, 8);
}

/* Is there an order in which the history does the same? */
static bool same(const struct run *run) {
  unsigned char page[HIST_PAGE_MAX] = {0};
  const struct hist_op *op;
  struct hist hist;
  bool good;
  hist_init(&hist, 40);
  hist_add(&hist, 1, 2, 1, run->end == DMI_RMW_NO_OBJECT ? HIST_NONE : run->kind, 0,
           (uint8_t)run->req.len, run->in, (uint16_t)run->req.sizes.out1, run->answer,
           (uint16_t)run->req.sizes.in);
  op = &hist.op[0];
  memcpy(page, run->before, sizeof(run->before));
  good = hist_apply(&hist, op, page) && memcmp(page, run->after, sizeof(run->after)) == 0;
  hist_fini(&hist);
  return good;
}

int main(void) {
  struct rng rng;
  uint32_t differ = 0, ends[4] = {0};
  rng_seed(&rng, 1);
  for (uint32_t i = 0; i < ROUNDS; i++) {
    struct run run = {.kind = HIST_NONE};
    if (rng_once_in(&rng, 3)) {
      draw_tickets(&rng, &run);
    } else {
      draw_arrive(&rng, &run);
    }
    run_core(&run);
    ends[run.end]++;
    if (same(&run)) continue;
    if (!differ++) printf("# operation %u differs\n", i);
  }
  printf("%sok 1 - %u operations do the same: %u end, %u wait, %u find no object; %u differ\n",
         differ ? "not " : "", ROUNDS, ends[DMI_RMW_DONE], ends[DMI_RMW_WAITS],
         ends[DMI_RMW_NO_OBJECT], differ);
  printf("1..1\n");
  return differ != 0;
}
