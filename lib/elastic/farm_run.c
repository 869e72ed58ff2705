/*
 * farm_run.c - DMI_farm_run: the thread that runs a farm makes what is in global memory, handles
 * notices, and starts and ends threads.
 *
 * While there are tasks it sleeps in DMI_poll and nowhere else, but for the ends of threads that it
 * knows to be ending: a thread that has done the last task, has made progress worth telling, or is
 * the last one of a process that is to leave, puts a note into the queue.  After each notice it
 * looks at the table.  Goodbyes are waited for when all is done (farm_member.c).
 */
#include "elastic/farm_int.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "elastic/elastic.h"
#include "elastic/nodes.h"
#include "node/calls.h"
#include "node/exits.h"

struct run {
  struct dmi_process *process;
  DMI_farm_t *farm;
  struct dmi_farm_about about;
  struct dmi_farm_at at;
  struct dmi_farm_answer look; /* the last one */
  int64_t about_addr;
  int64_t table; /* address of the first one */
  struct dmi_farm_team *teams;
  int32_t team_num;
  struct dmi_farm_members members;
  int32_t me; /* dmi_id; it is never GOES, as this function runs there */
  bool begun, over, lost;
  int64_t told;      /* tasks done at the last event PROGRESS */
  int32_t waits_for; /* so many processes more, as the last event IDLE or FEW has told; 0: none */
  double begin;
};

/* The thread of the program that runs the farm: without it the farm would never end. */
static void event_exits(void *process) {
  dmi_exits_thread(process, dmi_in_function ? "DMI_function" : "the event function of a farm");
}

DMI_EXITS_JUMP static void call_event(const struct run *run, const DMI_farm_event_t *event) {
  pthread_cleanup_push(event_exits, run->process);
  run->farm->event(event, run->farm->event_arg);
  pthread_cleanup_pop(0);
}

static void tell(const struct run *run, int32_t kind, int32_t dmi_id, int64_t value) {
  DMI_farm_event_t event = {.kind = kind, .dmi_id = dmi_id, .value = value};
  if (!run->farm->event) return;
  event.tasks = run->farm->tasks;
  event.done = run->look.done;
  event.failed = run->look.failed;
  event.processes = dmi_farm_members_in(&run->members);
  event.seconds = run->begun ? dmi_clock_s() - run->begin : 0;
  call_event(run, &event);
}

static int32_t ask(struct run *run, enum dmi_farm_op op, int32_t process) {
  const struct dmi_farm_step step = {.op = op, .process = process};
  return dmi_farm_table_ask(&run->at, &step, &run->look);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static struct dmi_farm_team *team_of(const struct run *run, int32_t dmi_id) {
  for (int32_t i = 0; i < run->team_num; i++) {
    if (run->teams[i].dmi_id == dmi_id) return &run->teams[i];
  }
  return NULL;
}

static void end_team(struct run *run, struct dmi_farm_team *team) {
  dmi_farm_team_join(team, run->process);
  *team = run->teams[--run->team_num];
}

/* Asks for threads on that process. */
static int32_t ask_team(struct run *run, const struct dmi_farm_member *m) {
  const struct dmi_farm_arg arg = {.about_addr = run->about_addr, .about = run->about};
  int32_t num = dmi_nodes_threads(run->farm->threads, m->core);
  struct dmi_farm_team *more =
      realloc(run->teams, (size_t)(run->team_num + 1) * sizeof(*run->teams));
  if (!more) return dmi_fail(DMI_ENOMEM);
  run->teams = more;
  dmi_farm_team_ask(&more[run->team_num++], &run->at, &arg, m->dmi_id, num);
  return DMI_TRUE;
}

/* Waits for those that were asked for.  A team that has none is none. */
static void await_teams(struct run *run) {
  for (int32_t i = run->team_num - 1; i >= 0; i--) {
    if (run->teams[i].asked) dmi_farm_team_await(&run->teams[i], &run->at);
    if (!run->teams[i].num) end_team(run, &run->teams[i]);
  }
}

static int32_t start_team(struct run *run, const struct dmi_farm_member *m) {
  int32_t good = ask_team(run, m);
  await_teams(run);
  return good;
}

/* Starts threads in all processes that were welcomed and have not asked to leave: in this one last,
 * as those would take the processor from what the others ask of this process to begin. */
static int32_t start_all(struct run *run) {
  int32_t good = DMI_TRUE;
  for (const struct dmi_farm_member *m = run->members.first; m && good; m = m->next) {
    if (m->state == DMI_FARM_IN && m->dmi_id != run->me) good = ask_team(run, m);
  }
  for (const struct dmi_farm_member *m = run->members.first; m && good; m = m->next) {
    if (m->state == DMI_FARM_IN && m->dmi_id == run->me) good = ask_team(run, m);
  }
  await_teams(run);
  return good;
}

/* ---- Members -------------------------------------------------------------------------------- */

/* No thread runs there.  NULL: it is lost. */
static void dismiss(struct run *run, struct dmi_farm_member *m) {
  if (!m) return;
  m->state = DMI_FARM_OUT;
  tell(run, DMI_FARM_LEAVE, m->dmi_id, m->dmi_id == run->me);
  if (m->dmi_id != run->me) dmi_farm_member_goodbye(&run->members, m);
}

/* ---- Notices -------------------------------------------------------------------------------- */

/* With so many processes more the farm begins. */
static int32_t missing_processes(const struct run *run) {
  int32_t wanted = run->farm->processes > 0 ? run->farm->processes : 1;
  return wanted - dmi_farm_members_in(&run->members);
}

static int32_t begin_if_ready(struct run *run) {
  if (run->begun || missing_processes(run) > 0) return DMI_TRUE;
  run->begun = true;
  run->begin = dmi_clock_s();
  return start_all(run);
}

static int32_t on_open(struct run *run, const DMI_node_t *node) {
  struct dmi_farm_member *m = dmi_farm_member_of(&run->members, node->dmi_id);
  if (m && m->state != DMI_FARM_GOES) return DMI_TRUE; /* DMI_nodes has told of it before */
  if (m) dmi_farm_member_drop(&run->members, m);       /* it has left, and another one has its id */
  if (!dmi_call_welcome(run->process, node->dmi_id)) return DMI_TRUE; /* it is gone already */
  m = dmi_farm_member_add(&run->members, node);
  if (!m) return DMI_FALSE;
  tell(run, DMI_FARM_JOIN, node->dmi_id, 0);
  if (run->over) return DMI_TRUE;
  return run->begun ? start_team(run, m) : begin_if_ready(run);
}

static int32_t on_close(struct run *run, const DMI_node_t *node) {
  struct dmi_farm_member *m = dmi_farm_member_of(&run->members, node->dmi_id);
  struct dmi_farm_team *team = team_of(run, node->dmi_id);
  if (m && m->state == DMI_FARM_GOES) {
    dmi_farm_member_asks_again(&run->members, m);
    return DMI_TRUE;
  }
  if (m && m->state == DMI_FARM_OUT && !team) return DMI_TRUE; /* DMI_nodes has told of it before */
  if (!m && !(m = dmi_farm_member_add(&run->members, node))) return DMI_FALSE;
  m->state = DMI_FARM_OUT;
  if (!team) {
    dismiss(run, m);
    return DMI_TRUE;
  }
  team->stopping = true;
  return ask(run, DMI_FARM_STOP, node->dmi_id + 1);
}

static int32_t on_lost(struct run *run, const DMI_node_t *node) {
  struct dmi_farm_team *team = team_of(run, node->dmi_id);
  struct dmi_farm_member *m = dmi_farm_member_of(&run->members, node->dmi_id);
  run->lost = true;
  if (m) {
    dmi_farm_member_drop(&run->members, m);
    tell(run, DMI_FARM_LOSS, node->dmi_id, 0);
  }
  if (!ask(run, DMI_FARM_LOST, node->dmi_id + 1)) return DMI_FALSE;
  if (team) end_team(run, team);
  return DMI_TRUE;
}

/* Who is there, and who waits to join or to leave: others may have taken the notices of these, and
 * may be lost since. */
static int32_t list_members(struct run *run) {
  int32_t num, good = DMI_TRUE;
  DMI_node_t *nodes = dmi_nodes_all(run->process, &num);
  if (!nodes) return DMI_FALSE;
  run->over = true; /* no threads yet */
  for (int32_t i = 0; good && i < num; i++) {
    if (nodes[i].state == DMI_OPENED) good = dmi_farm_member_add(&run->members, &nodes[i]) != NULL;
    if (nodes[i].state == DMI_OPEN) good = on_open(run, &nodes[i]);
    if (nodes[i].state == DMI_CLOSE) good = on_close(run, &nodes[i]);
  }
  free(nodes);
  return good;
}

static int32_t on_notice(struct run *run, const DMI_node_t *node) {
  switch (node->state) {
    case DMI_OPEN:
      return on_open(run, node);
    case DMI_CLOSE:
      return on_close(run, node);
    case DMI_LOST:
      return on_lost(run, node);
    default: /* DMI_NOTE */
      if (node->value != run->about_addr) tell(run, DMI_FARM_NOTE, node->dmi_id, node->value);
      return DMI_TRUE;
  }
}

/* ---- Behind each notice --------------------------------------------------------------------- */

/* Dismisses processes whose threads have all come to their ends. */
static int32_t dismiss_stopped(struct run *run) {
  for (int32_t i = run->team_num - 1; i >= 0; i--) {
    int32_t dmi_id = run->teams[i].dmi_id;
    if (!run->teams[i].stopping) continue;
    if (!ask(run, DMI_FARM_LOOK, dmi_id + 1)) return DMI_FALSE;
    if (run->look.threads) continue;
    end_team(run, &run->teams[i]);
    dismiss(run, dmi_farm_member_of(&run->members, dmi_id));
  }
  return DMI_TRUE;
}

/* Says that nobody does tasks: once, and again when it is another number of processes that the farm
 * waits for. */
static void tell_waiting(struct run *run) {
  int32_t num = 0;
  if (!run->begun) num = missing_processes(run);
  if (run->begun && !run->team_num && run->look.done < run->farm->tasks) num = 1;
  if (num > 0 && num != run->waits_for)
    tell(run, run->begun ? DMI_FARM_IDLE : DMI_FARM_FEW, 0, num);
  run->waits_for = num;
}

static int32_t look_around(struct run *run) {
  dmi_farm_members_look(&run->members);
  if (!dismiss_stopped(run) || !ask(run, DMI_FARM_LOOK, 0)) return DMI_FALSE;
  if (run->look.error) return dmi_fail(run->look.error);
  tell_waiting(run);
  if (run->look.done - run->told >= run->farm->tasks / 100 + 1 ||
      (run->look.done == run->farm->tasks && run->told < run->look.done)) {
    run->told = run->look.done;
    tell(run, DMI_FARM_PROGRESS, 0, 0);
  }
  return DMI_TRUE;
}

static int32_t handle_notices(struct run *run) {
  while (run->look.done < run->farm->tasks) {
    DMI_node_t node;
    const bool noted = dmi_doing_waits(&run->process->access.doings, DMI_DOING_TASKS,
                                       (uint64_t)run->look.done, (uint64_t)run->farm->tasks, 0);
    const int32_t good = dmi_call_poll(run->process, &node);
    dmi_doing_waited(noted);
    if (!good || !on_notice(run, &node) || !look_around(run)) return DMI_FALSE;
  }
  return DMI_TRUE;
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* All threads are ending.  Processes that wait for that may leave. */
static void end_all(struct run *run) {
  while (run->team_num) {
    struct dmi_farm_team team = run->teams[run->team_num - 1];
    end_team(run, &run->teams[run->team_num - 1]);
    if (team.stopping) dismiss(run, dmi_farm_member_of(&run->members, team.dmi_id));
  }
}

/* No thread runs any more: takes what they have put into the queue, and what else is there; perhaps
 * a loss. */
static void empty_queue(struct run *run) {
  DMI_node_t node;
  int32_t found = DMI_TRUE;
  run->over = true;
  while (dmi_call_peek(run->process, &node, &found) && found)
    (void)on_notice(run, &node);
}

/* Has all tasks done that are not. */
static int32_t do_all(struct run *run) {
  int64_t missing;
  do {
    missing = 0;
    run->lost = run->over = false;
    if (run->begun ? !start_all(run) : !begin_if_ready(run)) return DMI_FALSE;
    if (!look_around(run) || !handle_notices(run)) return DMI_FALSE;
    run->farm->seconds = dmi_clock_s() - run->begin;
    run->farm->failed = run->look.failed;
    end_all(run);
    empty_queue(run);
    if (run->lost && !dmi_farm_result_check(&run->at, &run->about, &missing, &run->farm->failed))
      return DMI_FALSE;
    if (missing && !ask(run, DMI_FARM_LOOK, 0)) return DMI_FALSE;
  } while (missing);
  return DMI_TRUE;
}

/* Puts the description, and the table, into global memory. */
static int32_t make(struct run *run) {
  const DMI_farm_t *farm = run->farm;
  struct dmi_access *access = &run->process->access;
  struct dmi_farm_about *about = &run->about;
  *about = (struct dmi_farm_about){.tasks = farm->tasks,
                                   .result_size = farm->result_size,
                                   .job_size = farm->job_size,
                                   .retries = farm->retries};
  if (!dmi_farm_result_map(run->process, about)) return DMI_FALSE;
  if (!dmi_call_mmap(run->process, &run->about_addr, (int64_t)sizeof(*about) + farm->job_size, 1,
                     NULL))
    return DMI_FALSE;
  return dmi_access_write(access, run->about_addr, sizeof(*about), about, DMI_EXCLUSIVE_WRITE,
                          NULL) &&
         dmi_access_write(access, run->about_addr + (int64_t)sizeof(*about), farm->job_size,
                          farm->job, DMI_EXCLUSIVE_WRITE, NULL) &&
         dmi_farm_table_new(&run->at, farm->tasks) && (run->table = run->at.addr);
}

/* Unmaps what is there: the results, too, if the farm has failed. */
static void unmake(struct run *run, bool good) {
  dmi_farm_table_free(run->process, run->table);
  if (run->about_addr) (void)dmi_call_munmap(run->process, run->about_addr, NULL);
  if (!good && run->about.results) (void)dmi_call_munmap(run->process, run->about.results, NULL);
  free(run->teams);
}

/* Of the farm's numbers the first that is negative. */
static int32_t negative(const DMI_farm_t *farm) {
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"tasks", farm->tasks},       {"result_size", farm->result_size},
                 {"job_size", farm->job_size}, {"processes", farm->processes},
                 {"threads", farm->threads},   {"retries", farm->retries}};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    if (numbers[i].value < 0)
      return dmi_because_so(DMI_EINVAL, "`%s` of the farm is negative: %" PRId64, numbers[i].name,
                            numbers[i].value);
  }
  return DMI_OK;
}

static int32_t bad_farm(struct dmi_process *process, const DMI_farm_t *farm) {
  if (!farm) return dmi_because(DMI_EINVAL, "the pointer to the farm is NULL");
  if (negative(farm) != DMI_OK) return DMI_EINVAL;
  if (farm->job_size > INT64_C(1) << 62)
    return dmi_because_of(DMI_ESIZE, "the job is too large", farm->job_size);
  if (farm->job_size && !farm->job)
    return dmi_because(DMI_EINVAL, "the job is NULL, but its size is not 0");
  if (process->program.farm_task) return DMI_OK;
  return dmi_because(DMI_ENOFUNC, "the program defines no DMI_farm_task");
}

static int32_t run_farm(struct run *run) {
  int32_t good = make(run) && list_members(run) && do_all(run);
  int32_t error = good ? DMI_OK : dmi_error_last();
  if (run->team_num) (void)ask(run, DMI_FARM_STOP, 0);
  end_all(run);
  empty_queue(run);
  dmi_farm_members_finish(&run->members);
  return dmi_result(error);
}

int32_t dmi_farm_run(struct dmi_process *process, DMI_farm_t *farm) {
  struct run run = {
      .process = process, .farm = farm, .at.process = process, .members.process = process};
  int32_t error = bad_farm(process, farm), good = DMI_TRUE;
  if (error == DMI_OK) error = dmi_elastic_begin(process, "DMI_farm_run");
  if (error != DMI_OK) return dmi_fail(error);
  run.me = (int32_t)process->dmi_id.n;
  farm->failed = 0;
  farm->seconds = 0;
  farm->dmi_private[0] = farm->dmi_private[1] = 0;
  run.about.entry = (int64_t)sizeof(int64_t);
  if (farm->tasks) good = run_farm(&run);
  error = good ? DMI_OK : dmi_error_last();
  if (good) dmi_farm_result_keep(farm, &run.about);
  unmake(&run, good);
  dmi_elastic_end(process);
  return dmi_result(error);
}
