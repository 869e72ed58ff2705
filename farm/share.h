/*
 * share.h - what the master and its workers tell each other in global memory (docs/dmifarm.md,
 * "Master and workers").
 *
 * A worker is a process that was welcomed; it has places, each for one task at a time: more of them
 * than tasks that it runs at once, so that while some run the next ones are fetched, and wait.
 * For each place there are three pages, all owned by the master, which so never waits for a worker:
 *   order   the master writes it, the worker watches it
 *   report  the worker writes it (PUT), then calls DMI_notify
 *   part    a part of a file on its way: the master writes it before it orders (PART), and the
 *           worker reads it (GET); or the worker writes it before it reports (SENT)
 *
 * Both sides take turns, so a page is never written before its last contents were read:
 *
 *   worker                          master
 *   FREE                  -->
 *                         <--       START  (a task; short files are in it)
 *   WANT file, offset     -->                                       \  for files that are
 *                         <--       PART                            /  longer
 *   ENDED                 -->       (what was printed is in it, if short)
 *                         <--       SEND file, offset               \  else
 *   SENT                  -->                                       /
 *                         <--       START ...
 *
 * STOP, for the task that runs, comes out of turn, and changes no turn: the place answers ENDED, as
 * ever, or has done so.  END ends the place out of turn, without an answer.
 */
#ifndef FARM_SHARE_H
#define FARM_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "runner.h"

#define FARM_PART (INT64_C(1) << 20) /* bytes of a part */
#define FARM_SHORT 2048              /* a program and its data that are no longer go with START */

enum farm_file { FARM_PROGRAM, FARM_DATA, FARM_OUT, FARM_ERR };

struct farm_order {
  int64_t number; /* changes with each order */
  enum farm_order_type {
    FARM_ORDER_NONE,
    FARM_ORDER_START,
    FARM_ORDER_PART,
    FARM_ORDER_SEND,
    FARM_ORDER_END
  } type;
  uint32_t stop; /* the turn of the START whose task is to be stopped; 0: none */
  uint32_t turn; /* counts orders that are not out of turn */
  /* START */
  uint32_t version;
  uint64_t timeout_ms;
  int64_t size[2]; /* of the program and its data */
  bool runs;       /* the program may be executed; else it is for sh */
  bool has_data;
  char name[FARM_NAME];
  char bytes[FARM_SHORT]; /* both files, if they fit together; else they are asked for */
  /* SEND, PART */
  enum farm_file file;
  int64_t offset, part_size;
};

struct farm_report {
  uint32_t turn; /* of the order that it answers */
  enum farm_report_type {
    FARM_REPORT_NONE,
    FARM_REPORT_FREE,
    FARM_REPORT_WANT,
    FARM_REPORT_ENDED,
    FARM_REPORT_SENT,
    FARM_REPORT_BROKEN /* out of turn: the worker cannot go on; `told.status` is an errno */
  } type;
  enum farm_file file;
  int64_t offset, part_size;
  struct farm_told told; /* ENDED, BROKEN */
};

/* Whether a report may be the answer to `order`, the last one of its place; `told`: how its task
 * has ended, if it has. */
bool farm_report_fits(const struct farm_report *report, const struct farm_order *order,
                      const struct farm_told *told);

/* What a worker finds at the address with which it is started. */
struct farm_start {
  int64_t order_addr, report_addr, part_addr; /* of place 0; the others follow, page by page */
  int64_t bin_addr, bin_size;                 /* the programs of the job's bin (pack.h) */
  int64_t worker;                             /* its number, for FARM_NOTE */
  int32_t places;
  int32_t at_once; /* so many of them run at a time */
};

/* The value of DMI_notify: a place of a worker has reported. */
#define FARM_NOTE(worker, place) ((worker)*INT64_C(65536) + (place))
#define FARM_PLACES 65535          /* a worker has no more */
#define FARM_CHORE FARM_PLACES     /* in place of a place: a chore for it is done (master_int.h) */
#define FARM_NOTE_TIME INT64_C(-1) /* it is time to look */
#define FARM_NOTE_STORED INT64_C(-2) /* results are on the disk */
#define FARM_NOTE_FINISH INT64_C(-3) /* `finish` has ended */

#endif
