/*
 * pulser_int.h - what the files of the pulse thread share; no other file includes it.
 */
#ifndef DMI_NODE_PULSER_INT_H
#define DMI_NODE_PULSER_INT_H

#include <ev.h>

#include "base/birth.h"
#include "base/lock.h"
#include "core/pulse.h"
#include "node/control.h"
#include "node/pulser.h"

enum dmi_pulser_order_type {
  DMI_ORDER_ADD,
  DMI_ORDER_CLOSE,
  DMI_ORDER_SEND,
  DMI_ORDER_SETTINGS,
  DMI_ORDER_END,
  DMI_ORDER_HALT
};

/* From the daemon to the pulse thread. */
struct dmi_pulser_order {
  enum dmi_pulser_order_type type;
  dmi_uid_t uid;
  struct dmi_addr addr; /* ADD, and so is this */
  struct dmi_birth birth;
  struct dmi_msg msg;  /* SEND */
  uint32_t dead_after; /* SETTINGS */
};

/* From the pulse thread, or a call of the daemon's, to the daemon. */
struct dmi_pulser_news {
  enum dmi_pulser_news_type { DMI_NEWS_ACT, DMI_NEWS_MAY_CHANGE } type;
  struct dmi_pulse_act act;
  bool told; /* LOST: a connection with it tells that, too, behind all that it has sent before */
};

struct dmi_pulser_neighbour;

struct dmi_pulser {
  struct dmi_process *process;
  bool survive;            /* of the program; the daemon's.  Changes once at most, to true */
  uint8_t program[16];     /* its id; not changed */
  struct dmi_net *net;     /* the second one; its daemon is the pulse thread.  NULL: not yet */
  bool failed;             /* there is no thread */
  struct dmi_birth mine;   /* of this process; not changed */
  struct dmi_lease *lease; /* with `survive`, since there is a network */
  pthread_t thread;
  struct ev_timer timer;                   /* the thread's: what is due next */
  struct dmi_pulser_neighbour *neighbours; /* the thread's */
  struct dmi_control control;              /* the thread's: what the launcher tells */
  struct dmi_mutex lock;                   /* guards all below */
  struct dmi_pulse *core;
  struct dmi_pulser_order *orders;
  uint32_t order_num, order_capacity;
  struct dmi_pulser_news *news; /* for the daemon */
  uint32_t news_num, news_capacity;
  bool refused;         /* the daemon asked whether it may make a view, and may not: it is told */
  bool awaits_lease;    /* likewise, whether somebody has a lease by this process, and has none */
  bool sends;           /* the thread is sending what was decided last */
  bool posted;          /* it was told that there are some */
  struct dmi_post post; /* how */
};

/* ---- pulser.c ---- */
/* Of a clock that goes on while the machine sleeps. */
dmi_ms_t dmi_pulser_now(void);
/* Makes it, without network and thread. */
struct dmi_pulser *dmi_pulser_new(struct dmi_process *process);

/* The program has called DMI_survive: the agreement begins with this view. */
void dmi_pulser_survives(struct dmi_pulser *pulser, const struct dmi_pulse_view *view,
                         uint64_t ballot);

/* ---- pulser_news.c ---- */
/* The daemon, posted: carries out the news. */
void dmi_pulser_hear(struct dmi_process *process, struct dmi_post *post);
/* Behind each call of the pure part, which was made with the lock held: gives that up.  `thread`:
 * this is the pulse thread; `told`: as in struct dmi_pulser_news. */
void dmi_pulser_carry(struct dmi_pulser *pulser, struct dmi_pulse_out *out, bool thread, bool told);
/* With the lock held. */
struct dmi_pulser_order *dmi_pulser_order(struct dmi_pulser *pulser,
                                          enum dmi_pulser_order_type type, dmi_uid_t uid);
void dmi_pulser_orders_free(struct dmi_pulser_order *orders, uint32_t num);
void dmi_pulser_news_free(struct dmi_pulser_news *news, uint32_t num);

#endif
