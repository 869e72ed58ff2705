/*
 * look.h - whether a thread that waits looks before it sleeps, and for how long: decisions only.
 *
 * Waking a thread that sleeps takes longer than most answers, so one that waits looks for what it
 * waits for, and yields the processor each time, before it sleeps.  It does so only while that has
 * paid lately and nobody else wants the processor.  docs/wire.md ("Looking before sleeping") has
 * the states.  Threads that wait for an answer, ranks of a team and daemons have the same rule.
 *
 *   if (!dmi_look_rests(past, rule)) {
 *     dmi_look_begin(&one, rule, dmi_clock_ns());
 *     do {
 *       ... looks; if something has come: dmi_look_news(&one, now) ...
 *       dmi_look_yields(&one, now);
 *       sched_yield();
 *     } while (dmi_look_goes_on(&one, dmi_clock_ns()));
 *     dmi_look_end(past, rule, one.is);
 *   }
 *
 * Must not: read a clock, yield or wait.
 */
#ifndef DMI_BASE_LOOK_H
#define DMI_BASE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#define DMI_LOOK_AUTO (-1)
#define DMI_LOOK_MOST_US 1000 /* who looks serves nobody else meanwhile */

/* What a process was told: `dmirun --spin`. */
struct dmi_look_rule {
  int32_t us; /* microseconds without news, each time; 0: never; DMI_LOOK_AUTO: if it pays */
  bool near;  /* threads of this process have more than one core: they look for each other */
};

/* How it went lately.  Of one thread; zero bytes at first. */
struct dmi_look_past {
  uint32_t rests; /* waits that follow without looking */
  uint32_t step;  /* how many did after the last look */
  bool shared;    /* in the last yield another thread ran on this processor */
  bool answers;   /* set by whoever looks: nothing can have come yet when a look begins */
};

enum dmi_look_is {
  DMI_LOOK_ON,      /* it goes on */
  DMI_LOOK_PAID,    /* it found what it was for */
  DMI_LOOK_MIXED,   /* it found something, and then nothing more */
  DMI_LOOK_VAIN,    /* it found nothing, and nobody else wanted the processor */
  DMI_LOOK_BUSY,    /* others ran: what is waited for may be what they were doing */
  DMI_LOOK_CROWDED, /* another thread computes on this processor */
  DMI_LOOK_UNMISSED /* the same, but nobody has waited for who looked; the caller says so */
};

/* One look. */
struct dmi_look_one {
  int64_t most;   /* ns without news */
  int64_t begin;  /* when it began */
  int64_t news;   /* when something came, or it began */
  int64_t yields; /* when the last yield began */
  bool found;     /* something came */
  bool follows;   /* more of something long is on its way */
  bool shared;    /* in the last yield another thread ran */
  enum dmi_look_is is;
};

/* True if this wait sleeps at once.  Counts it. */
bool dmi_look_rests(struct dmi_look_past *past, const struct dmi_look_rule *rule);
void dmi_look_begin(struct dmi_look_one *one, const struct dmi_look_rule *rule, int64_t now);
void dmi_look_news(struct dmi_look_one *one, int64_t now);
void dmi_look_yields(struct dmi_look_one *one, int64_t now);
/* While more of something long is on its way a look ends only when it is silent or others compute:
 * who sleeps then is woken for each piece, at the cost of the one that sends. */
void dmi_look_follows(struct dmi_look_one *one, bool follows);
/* True if such a look may begin though others rest. */
bool dmi_look_may_follow(const struct dmi_look_past *past, const struct dmi_look_rule *rule);
/* After the yield: true if it pays to look again.  Otherwise `is` says how the look was. */
bool dmi_look_goes_on(struct dmi_look_one *one, int64_t now);
/* Before a yield: true if it pays to look at memory for a microsecond instead, since nobody else
 * wants the processor.  What costs a system call to look at is looked at after each yield only. */
bool dmi_look_spins(const struct dmi_look_one *one, struct dmi_look_past *past, int64_t now);
/* Before the first look of a wait: true if it is better to yield first, since what was asked for
 * cannot be there, and who answers may need this processor. */
bool dmi_look_is_early(const struct dmi_look_past *past);
/* Decides how many waits rest now. */
void dmi_look_end(struct dmi_look_past *past, const struct dmi_look_rule *rule,
                  enum dmi_look_is is);

#endif
