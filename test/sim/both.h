/*
 * both.h - what the two simulators with pages have in common: the threads of virtual processes,
 * what they do to pages (draw.c, ops.c), and what must hold of pages between processes (pages.c).
 *
 * These files are compiled once for each simulator, as each has a `struct sim` of its own
 * (simulator.h).  Of it they use only fields that both have.
 */
#ifndef SIM_BOTH_H
#define SIM_BOTH_H

#include "core/coord_int.h"
#include "core/page.h"
#include "history.h"

#define SIM_PAGES 4u   /* per mapping, at most */
#define SIM_THREADS 3u /* with page operations, per process, at most */
#define SIM_RANGES 6u  /* of one operation, at most */
#define SIM_NO_WAIT UINT32_MAX

struct sim;

struct sim_thread {
  bool out;      /* its operation is not complete */
  bool ghost;    /* it was not when its process was lost */
  bool frame;    /* its bytes are in a frame, not in src */
  bool waits;    /* it is a kind that may wait at the owner */
  bool given_up; /* nobody has memory for the write that would end its wait */
  uint8_t map, page;
  uint32_t hist;               /* number in the page's history */
  uint32_t hist_wait;          /* of its second half; NO_WAIT: it has none */
  uint32_t hops;               /* times its request was sent */
  uint64_t calm;               /* sim.stir when it began */
  uint32_t sent_from, sent_to; /* uids: the last time */
  struct dmi_req req;
  /* With several ranges: `part` has one entry for each; `mask` has a bit for each of their bytes,
   * beginning at `from`. */
  uint64_t mask;
  uint32_t from, span; /* the bytes from the first range to the last */
  struct dmi_part part[SIM_RANGES];
  unsigned char src[2 * HIST_PAGE_MAX + SIM_RANGES * sizeof(struct dmi_range)];
  unsigned char dst[HIST_PAGE_MAX];
};

/* An operation that was chosen. */
struct sim_drawn {
  enum hist_kind kind;
  uint64_t input, answer; /* bytes */
};

/* A mapping, for the judge. */
struct sim_map {
  bool made;        /* DMI_mmap has returned */
  bool unmapping;   /* DMI_munmap was called */
  bool unmapped;    /* and has returned; all processes have forgotten it */
  bool gone;        /* only processes that are lost had known it */
  uint32_t creator; /* uid */
  uint64_t base, page_size, page_num;
  bool sync; /* its pages begin with tickets, or a barrier if they are large enough */
  struct hist hist[SIM_PAGES];
  uint32_t grants[SIM_PAGES]; /* GRANTs in flight */
  bool owned[SIM_PAGES];      /* a process has been its owner */
  struct {
    uint32_t hist;    /* the write at work at an owner that was lost, + 1; 0: none */
    uint64_t version; /* that it makes */
  } at_work[SIM_PAGES];
  bool orphan[SIM_PAGES]; /* its owner, or a GRANT, is lost, and it has no owner so far */
  bool lost[SIM_PAGES];   /* a home has given it up */
};

/* A call that stays open after a loss. */
struct sim_open {
  uint8_t map, page;
  uint32_t hist;
  uint32_t uid; /* whose it was */
  dmi_op_t op;
};

typedef DMI_LIST(struct sim_open) sim_open_list_t;

/* How often things happen; chosen anew from time to time. */
struct sim_mix {
  uint32_t issue;             /* of 1000 steps, how many begin an operation */
  uint32_t weight[6];         /* by enum dmi_req_type */
  uint32_t hot;               /* of 100 operations, how many go to the hot page */
  uint32_t hot_map, hot_page; /* SIM_PAGES: any page of it */
  uint32_t whole, small;      /* of 100 ranges */
  uint32_t drop;              /* of 10000 steps, how many drop a copy */
  uint32_t kick;              /* of 10000 steps, how many end a wait */
  uint32_t paging;            /* of 10000 steps, how many free memory, or ask for it */
  uint32_t churn;             /* of 10000 steps, how many change members or mappings */
  uint32_t freeze;            /* of 10000 steps, how many stop a process for a while */
  bool once;                  /* processes are lost: no operation that may take effect twice */
};

/* ---- draw.c: chooses what a thread does next ---- */
/* Chooses a new mix, but for what only one simulator has: churn and freeze. */
void sim_draw_mix(struct sim *sim);
/* To be called after it: sometimes, many threads fetch the same page several times (R13). */
void sim_draw_readers(struct sim *sim);
/* Chooses an operation on this page. */
void sim_draw_op(struct sim *sim, struct sim_thread *thread, uint32_t map, uint32_t page,
                 dmi_op_t op, struct sim_drawn *drawn);
/* Chooses a write that ends the wait of `req`, an operation on this page. */
void sim_draw_kick(struct sim *sim, struct sim_thread *thread, uint32_t map, uint32_t page,
                   dmi_op_t op, const struct dmi_req *req, struct sim_drawn *drawn);
/* What the manual calls its mode; for printing. */
const char *sim_draw_mode(const struct dmi_req *req);

/* ---- ops.c: operations in the history ---- */
/* Records that thread `num` of a process calls the operation, and tries it as a hit.  True: it was
 * one, and is complete; otherwise the request is ready for dmi_page_begin. */
bool sim_ops_call(struct sim *sim, struct dmi_core *core, struct sim_thread *thread, uint32_t num,
                  struct dmi_page *page, const struct sim_drawn *drawn);
/* Notes that an operation on the page seems to take effect now, if none was noted before. */
void sim_ops_hint(struct sim *sim, struct sim_thread *thread);
/* Of an operation that has ended: it returns its answer; it has failed and changed nothing. */
void sim_ops_back(struct sim *sim, const struct sim_thread *thread);
/* Others recover from a loss, and this operation has been sent and has no answer. */
void sim_ops_again(struct sim *sim, struct sim_thread *thread);
void sim_ops_failed(struct sim *sim, const struct sim_thread *thread);
/* True if it was rightly refused, because there are no tickets, or no barrier: then it is recorded.
 */
bool sim_ops_refused(struct sim *sim, const struct sim_thread *thread);
/* Frees what an operation that has ended had. */
void sim_ops_end(struct sim_thread *thread);
/* Notes that operations that wait on this page have done their first half. */
void sim_ops_waits(struct sim *sim, const struct dmi_page *page);
/* One of all operations that wait; NULL: none does. */
const struct dmi_req *sim_ops_waiting(struct sim *sim, uint32_t *map, uint32_t *page);

/* ---- pages.c: what must hold of pages between processes; reasons and lines of the log ---- */
/* Notes why this run is bad; the first reason stays. */
void sim_bad(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line if --verbose was given. */
void sim_log(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes that this step concerns the page, so that its rules are checked after the step. */
void sim_touch(struct sim *sim, uint32_t map, uint32_t page);
/* After each step: each page has one owner, and the core's own checks pass. */
void sim_pages_touched(struct sim *sim);
/* When no message is in flight: each operation that waits has a reason. */
void sim_check_waits(struct sim *sim);
/* When nothing is in flight: nothing waits, and every copy equals the owner's bytes. */
void sim_pages_quiet(struct sim *sim);
/* Records a last read of the owner's bytes: the order must lead to them. */
void sim_check_last(struct sim *sim);
void sim_check_histories(struct sim *sim);

#endif
