/*
 * pager_judge.c - checks what must hold for one pager.
 *
 * It knows the rules of docs/replacement.md and the state of the process, but not how the pager
 * decides.
 */
#include "pager_judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"

#define UIDS 512u

typedef unsigned long long ull;

/* Transient use at some time: how much had ended, and how much there was. */
struct moment {
  uint64_t ended, transient;
};

/* A question of another process that has no answer yet. */
struct question {
  bool open, now;
  uint64_t bytes, unit;
  struct moment since;
};

struct peer {
  struct question asks[2]; /* [1]: for a promise */
  bool asked;              /* we have asked it, and it has not answered */
  uint64_t answered;       /* the number of our last question that it has answered */
  uint64_t told;           /* what it has reported, less what it was offered since */
};

/* A page that is stalled, or was. */
struct stall {
  const struct dmi_page *page;
  struct moment since;
  uint64_t asked; /* the number of the last question then */
};

struct pager_judge {
  struct pager_judge_env env;
  struct dmi_pool *pool;
  const struct dmi_pressure *pressure;
  struct peer peer[UIDS];
  uint32_t uids;  /* highest known uid, plus 1 */
  uint64_t asked; /* the number of the last question */
  struct stall *stall;
  uint64_t stalls, stalls_capacity;
  const struct dmi_page *patient; /* waits for the end of transient use only; NULL: none does */
  struct moment patience;         /* since when */
};

struct pager_judge *pager_judge_new(const struct pager_judge_env *env, struct dmi_pool *pool,
                                    const struct dmi_pressure *pressure) {
  struct pager_judge *judge = calloc(1, sizeof(*judge));
  if (!judge) abort();
  judge->env = *env;
  judge->pool = pool;
  judge->pressure = pressure;
  return judge;
}

void pager_judge_free(struct pager_judge *judge) {
  if (!judge) return;
  free(judge->stall);
  free(judge);
}

static void __attribute__((format(printf, 2, 3)))
bad(const struct pager_judge *judge, const char *format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  judge->env.bad(judge->env.arg, text);
}

/* ---- What there is -------------------------------------------------------------------------- */

struct sums {
  uint64_t bytes, reserved, copies, droppable;
};

static void add(struct dmi_page *page, void *with) {
  uint64_t size = page->map->page_size;
  struct sums *sums = with;
  struct dmi_look look;
  (void)dmi_pressure_look_at(page, &look);
  if (page->frame) sums->bytes += size;
  if (page->frame && page->role == DMI_ROLE_NONE) sums->copies += size;
  if (page->flags & DMI_PAGE_RESERVED) sums->reserved += size;
  if (look.droppable) sums->droppable += size;
}

static struct sums sums_of(const struct pager_judge *judge, bool saved) {
  struct sums sums = {0, 0, 0, 0};
  judge->env.each(judge->env.arg, saved, add, &sums);
  return sums;
}

static uint64_t droppable(const struct pager_judge *judge) {
  return sums_of(judge, false).droppable;
}

static uint64_t promised(const struct pager_judge *judge) {
  return dmi_capacity_promised(judge->pressure->capacity);
}

static uint64_t left(const struct pager_judge *judge) {
  uint64_t used = dmi_pool_used(judge->pool), limit = dmi_pool_limit(judge->pool);
  return used < limit ? limit - used : 0;
}

static bool can_give(const struct pager_judge *judge) {
  const struct dmi_pressure *p = judge->pressure;
  return !p->waiting.num && !p->stalled.num && judge->env.gives(judge->env.arg);
}

uint64_t pager_judge_capacity(const struct pager_judge *judge) {
  return can_give(judge) ? left(judge) : 0;
}

/* The transient use, without promises.  (dmi_pool_transient would make the pool wake the pager the
 * next time.) */
static struct moment now(const struct pager_judge *judge) {
  uint64_t used = dmi_pool_used(judge->pool), other = sums_of(judge, true).bytes + promised(judge);
  return (struct moment){dmi_pool_transient_ended(judge->pool), used > other ? used - other : 0};
}

/* True if less has ended since then than was in transient use, and there is still some. */
static bool goes_on(const struct pager_judge *judge, const struct moment *since) {
  struct moment at = now(judge);
  return at.transient && at.ended - since->ended < since->transient;
}

void pager_judge_account(const struct pager_judge *judge, bool quiet) {
  struct sums sums = sums_of(judge, true);
  uint64_t used = dmi_pool_used(judge->pool), set_aside = sums.reserved + promised(judge);
  if (used < set_aside + sums.bytes || used > UINT64_MAX / 2)
    bad(judge, "the account has %llu bytes, %llu are pages' or reserved", (ull)used,
        (ull)(set_aside + sums.bytes));
  if (dmi_pool_copy_bytes(judge->pool) != sums.copies)
    bad(judge, "the account has %llu bytes of copies, not %llu",
        (ull)dmi_pool_copy_bytes(judge->pool), (ull)sums.copies);
  if (quiet && (used != sums.bytes || dmi_pool_transient(judge->pool)))
    bad(judge, "%llu bytes stay in use, and pages have %llu", (ull)used, (ull)sums.bytes);
}

static bool is_member(const struct pager_judge *judge, uint32_t uid) {
  return judge->env.member(judge->env.arg, uid);
}

/* ---- Questions and answers ------------------------------------------------------------------ */

static struct peer *peer_of(struct pager_judge *judge, uint32_t uid) {
  if (uid >= UIDS) abort();
  if (uid >= judge->uids) judge->uids = uid + 1;
  return &judge->peer[uid];
}

/* How many bytes make an answer that is large enough. */
static uint64_t enough(const struct question *asks, bool promise) {
  return promise ? asks->bytes : asks->unit;
}

/* Checks whether the answer is too small. */
static void check_answer(const struct pager_judge *judge, uint32_t to, const struct question *asks,
                         const struct dmi_msg_capacity_report *msg) {
  bool promise = msg->kind == DMI_CAPACITY_PROMISE;
  uint64_t wanted = enough(asks, promise), there = left(judge) + (promise ? msg->bytes : 0);
  if (msg->kind == DMI_CAPACITY_AHEAD || msg->bytes >= wanted || !can_give(judge)) return;
  if (there >= asks->unit && msg->bytes < (there < wanted ? there : wanted)) {
    bad(judge, "tells p%u of %llu bytes, and has %llu", to, (ull)msg->bytes, (ull)there);
  } else if (droppable(judge)) {
    bad(judge, "tells p%u of %llu bytes, and has %llu of copies", to, (ull)msg->bytes,
        (ull)droppable(judge));
  } else if (!asks->now && goes_on(judge, &asks->since)) {
    bad(judge, "tells p%u of %llu bytes, and has more in use only in passing", to, (ull)msg->bytes);
  }
}

void pager_judge_says(struct pager_judge *judge, uint32_t to, const struct dmi_msg *msg) {
  struct peer *peer = peer_of(judge, to);
  const struct dmi_msg_capacity_report *report = &msg->capacity_report;
  struct question *asks;
  if (msg->type == DMI_SVC_CAPACITY_ASK && msg->capacity_ask.kind != DMI_CAPACITY_PROMISE) {
    peer->asked = true;
    judge->asked = msg->capacity_ask.number;
  }
  if (msg->type != DMI_SVC_CAPACITY_REPORT) return;
  asks = &peer->asks[report->kind == DMI_CAPACITY_PROMISE];
  if (!report->number || !asks->open) return;
  asks->open = false;
  check_answer(judge, to, asks, report);
}

void pager_judge_hears(struct pager_judge *judge, uint32_t from, const struct dmi_msg *msg) {
  struct peer *peer = peer_of(judge, from);
  if (msg->type == DMI_SVC_CAPACITY_ASK) {
    const struct dmi_msg_capacity_ask *ask = &msg->capacity_ask;
    peer->asks[ask->kind == DMI_CAPACITY_PROMISE] = (struct question){
        true, (msg->flags & DMI_F_URGENT) != 0, ask->bytes, ask->unit, now(judge)};
  }
  if (msg->type != DMI_SVC_CAPACITY_REPORT || msg->capacity_report.kind == DMI_CAPACITY_PROMISE)
    return;
  peer->told = msg->capacity_report.bytes;
  if (!msg->capacity_report.number) return;
  peer->asked = false;
  peer->answered = msg->capacity_report.number;
}

void pager_judge_offers(struct pager_judge *judge, uint32_t to, uint64_t bytes) {
  struct peer *peer = peer_of(judge, to);
  if (peer->told < bytes)
    bad(judge, "offers p%u %llu bytes, and it has told of %llu", to, (ull)bytes, (ull)peer->told);
  peer->told -= bytes < peer->told ? bytes : peer->told;
}

void pager_judge_kept(struct pager_judge *judge, uint32_t from) {
  peer_of(judge, from)->told = 0;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

void pager_judge_stalled(struct pager_judge *judge, const struct dmi_page *page) {
  uint64_t i = 0;
  while (i < judge->stalls && judge->stall[i].page != page)
    i++;
  DMI_XALLOC_GROW(judge->stall, i, judge->stalls_capacity);
  judge->stall[i] = (struct stall){page, now(judge), judge->asked};
  if (i == judge->stalls) judge->stalls++;
}

void pager_judge_admits(struct pager_judge *judge) {
  judge->patient = NULL;
}

static bool asks_nobody(const struct pager_judge *judge) {
  for (uint32_t uid = 0; uid < judge->uids; uid++) {
    if (judge->peer[uid].asked && is_member(judge, uid)) return false;
  }
  return true;
}

/* If it waits only for the end of transient use, this must not last for ever. */
void pager_judge_rests(struct pager_judge *judge, bool armed) {
  const struct dmi_pressure *p = judge->pressure;
  if (!p->waiting.num || p->offered.num || armed || !asks_nobody(judge)) {
    judge->patient = NULL;
  } else if (judge->patient != p->waiting.page[0]) {
    judge->patient = p->waiting.page[0];
    judge->patience = now(judge);
    judge->patience.transient += promised(judge);
  } else if (dmi_pool_transient_ended(judge->pool) - judge->patience.ended >
             judge->patience.transient + judge->patient->map->page_size) {
    bad(judge, "a write waits for memory that always others get");
  }
}

void pager_judge_sleeps(const struct pager_judge *judge) {
  const struct dmi_pressure *p = judge->pressure;
  uint64_t copies = droppable(judge), there = left(judge) + copies;
  bool gives = can_give(judge);
  for (uint32_t uid = 0; gives && uid < judge->uids; uid++) {
    for (int q = 0; q < 2; q++) {
      const struct question *asks = &judge->peer[uid].asks[q];
      if (asks->open && there >= enough(asks, q) && is_member(judge, uid))
        bad(judge, "sleeps, and p%u waits for its answer to %llu", uid, (ull)asks->bytes);
    }
  }
  if (!p->waiting.num || p->offered.num || !asks_nobody(judge)) return;
  if (copies && p->waiting.page[0]->map->page_size <= there)
    bad(judge, "sleeps, and could drop copies for a write");
}

const char *pager_judge_hopes(const struct pager_judge *judge, const struct dmi_page *page) {
  if (page->map->page_size <= left(judge)) return "it has memory itself";
  for (uint64_t i = 0; i < judge->stalls; i++) {
    if (judge->stall[i].page != page) continue;
    if (!judge->pressure->spills && goes_on(judge, &judge->stall[i].since))
      return "transient use will end";
  }
  return NULL;
}

/* True if some member has refused only before the page stalled. */
static bool refused_before(const struct pager_judge *judge, const struct stall *stall) {
  for (uint32_t uid = 0; uid < judge->uids; uid++) {
    const struct peer *peer = &judge->peer[uid];
    if (peer->answered && peer->answered <= stall->asked && is_member(judge, uid) &&
        peer->told < stall->page->map->page_size)
      return true;
  }
  return false;
}

bool pager_judge_unasked(const struct pager_judge *judge, const struct dmi_page *page) {
  for (uint64_t i = 0; i < judge->stalls; i++) {
    if (judge->stall[i].page == page && refused_before(judge, &judge->stall[i])) return true;
  }
  return false;
}
