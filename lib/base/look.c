/*
 * look.c - see look.h.
 */
#include "base/look.h"

#define SILENT_NS 100000                  /* how long a look goes on while nothing comes */
#define MOST_NS (DMI_LOOK_MOST_US * 1000) /* and at most: what comes for others may never end */
#define BUSY_NS 20000                     /* if a yield takes longer, others want the processor */
#define SLICE_NS 500000                   /* and if it takes so long, they compute */
#define SHARED_NS 2000                    /* a yield takes less if nobody else runs meanwhile */
#define SPIN_NS 20000                     /* others are asked that often, at least */
#define VAIN_RESTS 64                     /* waits that rest at most when looking was in vain */
#define CROWDED_RESTS 1024 /* and when others compute: each look may cost milliseconds */

bool dmi_look_rests(struct dmi_look_past *past, const struct dmi_look_rule *rule) {
  if (rule->us != DMI_LOOK_AUTO) return rule->us == 0;
  if (past->rests == 0) return false;
  past->rests--;
  return true;
}

void dmi_look_begin(struct dmi_look_one *one, const struct dmi_look_rule *rule, int64_t now) {
  const int64_t most = rule->us == DMI_LOOK_AUTO ? SILENT_NS : (int64_t)rule->us * 1000;
  *one = (struct dmi_look_one){.most = most, .begin = now, .news = now, .is = DMI_LOOK_ON};
}

void dmi_look_news(struct dmi_look_one *one, int64_t now) {
  one->news = now;
  one->found = true;
}

void dmi_look_yields(struct dmi_look_one *one, int64_t now) {
  one->yields = now;
}

void dmi_look_follows(struct dmi_look_one *one, bool follows) {
  one->follows = follows;
}

bool dmi_look_may_follow(const struct dmi_look_past *past, const struct dmi_look_rule *rule) {
  return rule->us != 0 && (rule->us != DMI_LOOK_AUTO || past->step <= VAIN_RESTS);
}

bool dmi_look_goes_on(struct dmi_look_one *one, int64_t now) {
  const int64_t away = now - one->yields;
  one->shared = away >= SHARED_NS;
  const bool silent = now - one->news >= one->most;
  if (one->follows && away < SLICE_NS && !silent) return true;
  if (away < BUSY_NS && !silent && now - one->begin < MOST_NS) return true;
  if (away >= SLICE_NS) {
    one->is = DMI_LOOK_CROWDED;
  } else if (away >= BUSY_NS) {
    one->is = DMI_LOOK_BUSY;
  } else if (!one->found) {
    one->is = DMI_LOOK_VAIN;
  } else {
    one->is = silent ? DMI_LOOK_MIXED : DMI_LOOK_PAID;
  }
  return false;
}

bool dmi_look_spins(const struct dmi_look_one *one, struct dmi_look_past *past, int64_t now) {
  if (one->yields != 0) past->shared = one->shared;
  return !past->shared && now - (one->yields != 0 ? one->yields : one->begin) < SPIN_NS;
}

bool dmi_look_is_early(const struct dmi_look_past *past) {
  return past->answers && past->shared;
}

static uint32_t twice(uint32_t step, uint32_t least, uint32_t most) {
  if (step < least) return least;
  return step < most / 2 ? 2 * step : most;
}

void dmi_look_end(struct dmi_look_past *past, const struct dmi_look_rule *rule,
                  enum dmi_look_is is) {
  if (rule->us != DMI_LOOK_AUTO) return;
  switch (is) {
    case DMI_LOOK_PAID:
      past->step /= 2;
      break;
    case DMI_LOOK_VAIN:
      if (past->step < VAIN_RESTS) past->step = twice(past->step, 1, VAIN_RESTS);
      break;
    case DMI_LOOK_CROWDED:
      past->step = twice(past->step, 2 * VAIN_RESTS, CROWDED_RESTS);
      break;
    case DMI_LOOK_UNMISSED:
      past->step = 0;
      break;
    default:
      break;
  }
  past->rests = past->step;
}
