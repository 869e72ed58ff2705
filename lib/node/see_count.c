/*
 * see_count.c - what this process has counted, for those who look: the pages for which it asks most
 * often, how long its threads have waited for what and, with --profile, where.  Any thread.
 */
#include <inttypes.h>

#include "node/profiler.h"
#include "node/see_int.h"

static void put_bytes(struct dmi_json *to, const char *name,
                      const struct dmi_faults_bytes *bytes) {
  if (bytes->from != bytes->to)
    dmi_json_put(to, ",\"%s\":[%" PRIu64 ",%" PRIu64 "]", name, bytes->from, bytes->to);
}

uint64_t dmi_see_hot(struct dmi_process *process, struct dmi_json *to) {
  struct dmi_faults_seen seen;
  dmi_faults_look(&process->access.faults, &seen);
  dmi_json_put(to, "{\"faults\":%" PRIu64 "}\n", seen.lately);
  for (uint32_t i = 0; i < DMI_FAULTS_HOT && seen.hot[i].count; i++) {
    const struct dmi_hot *hot = &seen.hot[i];
    dmi_json_put(to,
                 "{\"mapping\":\"0x%" PRIx64 "\",\"page\":%" PRIu64 ",\"faults\":%" PRIu64
                 ",\"surely\":%" PRIu64,
                 hot->of, hot->which, hot->count, hot->count - hot->more);
    put_bytes(to, "wrote", &seen.touched[i].wrote);
    put_bytes(to, "read", &seen.touched[i].read);
    dmi_json_put(to, "}\n");
  }
  return 0;
}

uint64_t dmi_see_waits(struct dmi_process *process, struct dmi_json *to) {
  struct dmi_doing_times times[DMI_DOING_KINDS];
  dmi_doing_look_times(&process->access.doings, times);
  for (enum dmi_doing_what what = DMI_DOING_NOTHING + 1; what < DMI_DOING_KINDS; what++) {
    const struct dmi_doing_times *of = &times[what];
    uint64_t num = 0;
    for (uint32_t i = 0; i < DMI_DOING_LENGTHS; i++)
      num += of->num[i];
    if (!num) continue;
    dmi_json_put(to, "{\"waits\":\"%s\",\"num\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"lengths\":[",
                 dmi_see_wait_name(what), num, of->ns);
    for (uint32_t i = 0; i < DMI_DOING_LENGTHS; i++)
      dmi_json_put(to, i ? ",%" PRIu64 : "%" PRIu64, of->num[i]);
    dmi_json_put(to, "]}\n");
  }
  return 0;
}

/* `at`: 1 and the number of the line; each takes so little that one always fits. */
uint64_t dmi_see_profile(struct dmi_process *process, uint64_t at, struct dmi_json *to) {
  size_t before = to->at;
  if (!at) {
    if (dmi_profiler_put_head(process, to)) (void)dmi_see_line(to, before);
    at = 1;
  }
  while (before = to->at, dmi_profiler_put_line(process, (uint32_t)(at - 1), to)) {
    if (!dmi_see_line(to, before)) return at;
    at++;
  }
  return 0;
}
