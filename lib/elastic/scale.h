/*
 * scale.h - DMI_rescale: a team of ranked threads, made anew when processes join, leave or are
 * lost.
 *
 * docs/elastic.md, "DMI_rescale", is the specification.  The thread that calls dmi_scale_run
 * handles all notices meanwhile; dmi_scale_thread is what the threads of the team run.
 */
#ifndef DMI_ELASTIC_SCALE_H
#define DMI_ELASTIC_SCALE_H

#include <stdbool.h>
#include <stdint.h>

struct dmi_process;

/* DMI_OK: *value gets what DMI_scaleunit has returned; else why it cannot go on. */
int32_t dmi_scale_run(struct dmi_process *process, int64_t scaleunit_addr, int32_t init_node_num,
                      int32_t thread_num, int32_t *value);

/* The body of a thread of the team: `addr` is that of its order. */
int64_t dmi_scale_thread(int64_t addr);

/* Is the calling thread in DMI_scaleunit? */
bool dmi_scale_in_unit(void);

/* In DMI_scaleunit; DMI_OK or an error.  *judge is set in both cases, unless the caller is no
 * thread of a team. */
int32_t dmi_scale_check(int32_t *judge);
int32_t dmi_scale_lost(int32_t *num);

#endif
