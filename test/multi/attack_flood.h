/*
 * attack_flood.h - very many connections at the same time, for attack.c.
 *
 * A thread begins `rate` connections a second, waits for none of them, and goes on until it is told
 * to end.  One flood at a time.
 */
#ifndef ATTACK_FLOOD_H
#define ATTACK_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/proof.h"

/* What the connections of a flood do. */
enum flood_kind {
  FLOOD_CLOSE,  /* they go away at once */
  FLOOD_SILENT, /* they stay, and say nothing */
  FLOOD_SAY     /* they say something; every second one stays */
};

struct flood_plan {
  uint16_t port;
  enum flood_kind kind;
  uint32_t rate;    /* connections a second */
  uint32_t first;   /* connections that are begun when flood_begin returns */
  uint32_t sources; /* addresses that they come from, at most 65,536; 1: 127.0.0.1 */
  /* FLOOD_SAY: what they say, `text_num` texts of `text_size` bytes in turn.  They must stay. */
  const unsigned char *texts;
  uint32_t text_num, text_size;
};

struct flood_result {
  uint64_t begun, came, failed; /* connections; neither of the last two: the kernel was full */
  double seconds;
};

/* Returns when plan->first are under way.  False: the system allows no thread or descriptor. */
bool flood_begin(const struct flood_plan *plan);
/* Ends it, and closes all its connections. */
struct flood_result flood_end(void);

#endif
