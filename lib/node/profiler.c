/*
 * profiler.c - see profiler.h.
 *
 * The first process of a program begins the file anew; others append to it, also those of the same
 * machine at the same time: each line is one write.  Lines say of which program they are, so that
 * those of an older one, in a file on a machine of which no process is the first, are told apart.
 *
 * Failure modes: a file that cannot be opened: the process does not start; one that cannot be
 * written: a line says so at the end.  A process that is killed has written nothing.
 */
#include "node/profiler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/where.h"
#include "node/runtime.h"
#include "node/see_int.h"

#define LINE 8192 /* bytes that are enough for a line of JSON */

/* ---- Lines ----------------------------------------------------------------------------------- */

static void put_cost(struct dmi_json *to, const struct dmi_profile_cost *cost) {
  dmi_json_put(to,
               "{\"faults\":%" PRIu64 ",\"waits\":%" PRIu64 ",\"ns\":%" PRIu64
               ",\"longest\":%" PRIu64 "}",
               cost->faults, cost->waits, cost->ns, cost->longest);
}

/* "program":"01ab...","process":0 */
static void put_whose(const struct dmi_process *process, struct dmi_json *to) {
  const uint8_t *program = dmi_member_program(process->member);
  dmi_json_put(to, "\"program\":\"");
  for (int i = 0; i < 8; i++)
    dmi_json_put(to, "%02x", program[i]);
  dmi_json_put(to, "\",\"member\":%" PRIu32 ",\"process\":%" PRId32, process->access.core.self,
               (int32_t)process->dmi_id.n);
}

bool dmi_profiler_put_head(struct dmi_process *process, struct dmi_json *to) {
  struct dmi_profile_sum sum;
  if (!process->access.profile) return false;
  dmi_profile_sum(process->access.profile, &sum);
  dmi_json_put(to, "{\"profile\":\"process\",");
  put_whose(process, to);
  dmi_json_put(to, ",\"pid\":%ld,\"all\":", (long)getpid());
  put_cost(to, &sum.all);
  dmi_json_put(to, ",\"gone\":%" PRIu64 ",\"rest\":", sum.gone);
  put_cost(to, &sum.rest);
  dmi_json_put(to, "}");
  return true;
}

static void put_kinds(uint32_t kinds, struct dmi_json *to) {
  const char *between = "";
  dmi_json_put(to, ",\"waits\":[");
  for (enum dmi_doing_what what = DMI_DOING_NOTHING; what < DMI_DOING_KINDS; what++) {
    if (!(kinds & 1u << what)) continue;
    dmi_json_put(to, "%s\"%s\"", between, dmi_see_wait_name(what));
    between = ",";
  }
  dmi_json_put(to, "]");
}

static void put_pages(const struct dmi_profile_line *line, struct dmi_json *to) {
  const char *between = "";
  dmi_json_put(to, ",\"pages\":[");
  for (uint32_t i = 0; i < DMI_PROFILE_PAGES; i++) {
    const struct dmi_hot *page = &line->page[i];
    if (!page->count) continue;
    dmi_json_put(to,
                 "%s{\"page\":%" PRIu64 ",\"faults\":%" PRIu64 ",\"surely\":%" PRIu64
                 ",\"ns\":%" PRIu64 "}",
                 between, page->which, page->count, page->count - page->more, line->page_ns[i]);
    between = ",";
  }
  dmi_json_put(to, "]");
}

bool dmi_profiler_put_line(struct dmi_process *process, uint32_t number, struct dmi_json *to) {
  struct dmi_profile_line line;
  char where[DMI_WHERE_SIZE];
  if (!process->access.profile || !dmi_profile_look(process->access.profile, number, &line))
    return false;
  dmi_json_put(to, "{\"profile\":\"place\",");
  put_whose(process, to);
  if (line.name) {
    dmi_where(where, sizeof(where), line.caller);
    dmi_json_put(to, ",\"call\":\"%s\",\"place\":", line.name);
    dmi_json_text(to, where);
  }
  if (line.mapping) {
    dmi_json_put(to, ",\"mapping\":\"0x%" PRIx64 "\",\"page_size\":%" PRIu64, line.mapping,
                 line.page_size);
    put_pages(&line, to);
  }
  put_kinds(line.kinds, to);
  dmi_json_put(to, ",\"cost\":");
  put_cost(to, &line.cost);
  dmi_json_put(to, "}");
  return true;
}

/* ---- The file -------------------------------------------------------------------------------- */

bool dmi_profiler_begin(struct dmi_process *process) {
  const char *path = process->config.profile_file;
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  if (!path) return true;
  process->profile_fd =
      open(path, dmi_config_joins(&process->config) ? flags : flags | O_TRUNC, 0666);
  if (process->profile_fd >= 0 && dmi_profile_new(&process->access)) return true;
  (void)dmi_runtime_not_made(process, "--profile", path, process->profile_fd >= 0 ? ENOMEM : errno);
  if (process->profile_fd >= 0) close(process->profile_fd);
  process->profile_fd = -1;
  return false;
}

/* False: errno says why not. */
static bool append(int fd, struct dmi_json *json) {
  size_t done = 0;
  ssize_t num = 0;
  dmi_json_put(json, "\n");
  dmi_file_begin();
  /* a part is written only when there is no room for more, which the next write tells */
  while (done < json->at && (num >= 0 || errno == EINTR)) {
    num = write(fd, json->text + done, json->at - done);
    if (num > 0) done += (size_t)num;
  }
  dmi_file_end();
  return done == json->at;
}

static bool append_all(struct dmi_process *process) {
  char text[LINE];
  struct dmi_json json = {text, 0, sizeof(text)};
  if (!dmi_profiler_put_head(process, &json) || !append(process->profile_fd, &json)) return false;
  for (uint32_t i = 0; json.at = 0, dmi_profiler_put_line(process, i, &json); i++) {
    if (!append(process->profile_fd, &json)) return false;
  }
  return true;
}

void dmi_profiler_end(struct dmi_process *process) {
  if (!process->access.profile || process->profile_fd < 0) return;
  if (process->member && !append_all(process))
    dmi_say(&process->stream, DMI_LOG_WARN, "member",
            "cannot write %s: %s; the profile (--profile) of this process is not complete",
            process->config.profile_file, dmi_file_why(errno));
  close(process->profile_fd);
  process->profile_fd = -1;
}
