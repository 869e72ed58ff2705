/*
 * scale.c - DMI_rescale: gathers processes, and runs phases until one says that all is done.
 *
 * The thread that calls it handles notices and has one phase after the other made; it keeps nothing
 * from one call to the next, as DMI_nodes tells who is there.  A phase ends when all its threads
 * have returned from DMI_scaleunit.
 *
 * Failure modes: the program ends (DMI_exit), nobody is left to work, no memory.
 */
#include "elastic/scale.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/xalloc.h"
#include "elastic/elastic.h"
#include "elastic/scale_int.h"
#include "node/runtime.h"

/* DMI_start_scale says that those that are there are enough. */
static bool told_to_start(const struct dmi_scale *s) {
  DMI_node_t *nodes;
  int num = 0;
  bool yes;
  if (!s->process->program.start_scale) return false;
  nodes = dmi_xalloc((size_t)s->num + 1, sizeof(*nodes));
  for (uint32_t i = 0; i < s->num; i++) {
    if (s->nodes[i]->state == DMI_SCALE_IN) nodes[num++] = s->nodes[i]->node;
  }
  yes = s->process->program.start_scale(nodes, num) != 0;
  free(nodes);
  return yes;
}

/* Can the next phase begin?  The first one waits for enough processes, others for one. */
static bool can_begin(const struct dmi_scale *s, bool first) {
  const int32_t team = dmi_scale_team(s, NULL);
  if (team == 0) return false;
  return !first || (s->init_node_num > 0 && team >= s->init_node_num) || told_to_start(s);
}

static int32_t gather(struct dmi_scale *s, bool first) {
  int32_t error = dmi_scale_look(s);
  while (error == DMI_OK && !can_begin(s, first)) {
    if (dmi_scale_team(s, NULL) == 0 && s->self_leaves)
      return dmi_because(DMI_ELEAVING, "all processes have been asked to leave");
    error = dmi_scale_wait(s);
    if (error == DMI_OK) error = dmi_scale_look(s);
  }
  return error;
}

static int32_t check_and_begin(const struct dmi_scale *s) {
  if (!s->process->program.scaleunit)
    return dmi_because(DMI_ENOFUNC, "the program defines no DMI_scaleunit");
  if (s->thread_num < 0) return dmi_because_of(DMI_EINVAL, "thread_num is negative", s->thread_num);
  if (s->thread_num > DMI_SCALE_THREADS_MOST)
    return dmi_because_of(DMI_EINVAL, "thread_num is above 65536", s->thread_num);
  if (s->init_node_num < 0)
    return dmi_because_of(DMI_EINVAL, "init_node_num is negative", s->init_node_num);
  if (s->init_node_num == 0 && !s->process->program.start_scale)
    return dmi_because(DMI_EINVAL,
                       "init_node_num is 0, and the program defines no DMI_start_scale");
  if (!dmi_runtime_is_main())
    return dmi_because(DMI_EBUSY, "another thread than that of DMI_main or DMI_recover calls it");
  return dmi_elastic_begin(s->process, "DMI_rescale");
}

int32_t dmi_scale_run(struct dmi_process *process, int64_t scaleunit_addr, int32_t init_node_num,
                      int32_t thread_num, int32_t *value) {
  struct dmi_scale s = {.process = process,
                        .addr = scaleunit_addr,
                        .init_node_num = init_node_num,
                        .thread_num = thread_num,
                        .self = (int32_t)process->dmi_id.n,
                        .granted = true};
  bool again = true;
  int32_t error = check_and_begin(&s);
  if (error != DMI_OK) return error;
  error = dmi_scale_list(&s);
  for (bool first = true; again && error == DMI_OK; first = false) {
    error = gather(&s, first);
    if (error == DMI_OK) error = dmi_scale_phase(&s, value, &again);
  }
  dmi_scale_forget(&s, error != DMI_EEND && error != DMI_EINACTIVE);
  dmi_elastic_end(process);
  return error;
}
