/*
 * parts.h - a computation of many parts, done by all processes of the program: each part is a call
 * of a remote function.  In a server that runs alone, without dmirun, this thread does them.
 */
#ifndef OX_PARTS_H
#define OX_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "dmi_ox.h"

/* What parts there are; parts.c has the table of their functions. */
enum ox_kind { OX_QUEENS, OX_PRODUCT, OX_KINDS };

/* Computes one: `job` is the same for all parts.  `out` is zero before. */
typedef void (*ox_part_t)(const void *job, int64_t job_size, const void *part, int64_t part_size,
                          void *out, int64_t out_size);

struct ox_parts;

/* `take` is given the result of each part, in their order, by the calling thread.  NULL: it cannot
 * begin, and `*error` says why, a value for the client. */
struct ox_parts *ox_parts_begin(enum ox_kind kind, const void *job, int64_t job_size,
                                void (*take)(void *arg, const void *out), void *arg,
                                DMI_ox_value_t **error);
/* One more part; waits while enough are under way for all processes.  False: nothing more is
 * needed, as the client has gone, or a part has failed. */
bool ox_parts_add(struct ox_parts *parts, const void *part, int64_t part_size, int64_t out_size);
/* Waits for all.  NULL: all are done; else an error for the client. */
DMI_ox_value_t *ox_parts_end(struct ox_parts *parts);

/* processes(): for each process LIST[id, host, cores, parts that it has done for this one]. */
DMI_ox_value_t *ox_parts_processes(void);

#endif
