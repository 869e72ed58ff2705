/*
 * program.h - the functions that a program defines, as its start object passes them.
 *
 * The library must not refer to them by name: a shared libdmi is linked without them, and all but
 * DMI_main are optional.
 */
#ifndef DMI_NODE_PROGRAM_H
#define DMI_NODE_PROGRAM_H

#include <stdint.h>

#include "dmi_api.h"

/* The executable of every DMI program contains this text, stripped or not: dmirun looks for it. */
#define DMI_PROGRAM_MARK "DMI program; start it with dmirun"

/* What a DMI thread runs. */
enum dmi_body {
  DMI_BODY_USER,  /* DMI_thread */
  DMI_BODY_FARM,  /* tasks of a farm: elastic/farm.h */
  DMI_BODY_SCALE, /* a part of DMI_rescale */
  DMI_BODIES
};

/* All but main and mark are NULL when the program does not define them. */
struct dmi_program {
  void (*main)(int argc, char **argv);
  int64_t (*thread)(int64_t addr);
  void (*function)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                   int64_t out2_size, void *in, int64_t in_size, int8_t tag);
  void (*init)(int argc, char **argv);
  int32_t (*recover)(int argc, char **argv, int32_t lost_id);
  int32_t (*farm_task)(int64_t task, void *out, int64_t size, const void *job);
  int32_t (*scaleunit)(int my_rank, int pnum, int64_t scaleunit_addr);
  int32_t (*start_scale)(DMI_node_t *in, int in_num);
  int32_t (*judge_rescale)(DMI_node_t *in, DMI_node_t *out, DMI_node_t *cur, int in_num,
                           int out_num, int cur_num);
  const char *mark; /* DMI_PROGRAM_MARK: used here, so that the linker keeps it */

  /* ---- filled by lib/elastic, which is above this folder ---- */
  int64_t (*inner[DMI_BODIES])(int64_t addr); /* its bodies of threads; NULL: cannot be run */
  /* What DMI_function is for the program, for negative tags: of requests that lib/elastic makes. */
  void (*step)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
               int64_t out2_size, void *in, int64_t in_size, int8_t tag);
};

#endif
