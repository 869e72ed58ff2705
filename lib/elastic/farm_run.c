/*
 * farm_run.c - DMI_farm_run: the thread that runs a farm makes what is in global memory, handles
 * notices, and starts and ends threads.
 *
 * While there are tasks it sleeps in DMI_poll and nowhere else, but for the ends of threads that it
 * knows to be ending: a thread that has done the last task, has made progress worth telling, or is
 * the last one of a process that is to leave, puts a note into the queue.  After each notice it
 * looks at the table.  Goodbyes are said without waiting for their answers, which come when the
 * pages have moved: they are waited for when all is done.
 *
 * Who is there is kept as a list, as notices may be about processes that were never in it: one was
 * lost before it was welcomed, or had asked to leave before the farm began.
 */
#include "elastic/farm_int.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/status.h"
#include "base/error.h"
#include "node/calls.h"

#define UNDER_WAY (-1) /* no DMI_E* */

/* A process, until it has left or is lost. */
struct member {
  struct member *next;
  int32_t dmi_id;
  int32_t core; /* how many it has */
  enum {
    IN,  /* was welcomed */
    OUT, /* has asked to leave: its threads are to end, if there are any */
    GOES /* DMI_goodbye was called; `goodbye` tells what became of that */
  } state;
  DMI_local_status_t goodbye;
};

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
  struct member *members;
  int32_t me; /* dmi_id; it is never GOES, as this function runs there */
  bool begun, over, lost;
  int64_t told; /* tasks done at the last event PROGRESS */
  double begin;
};

static double clock_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Processes that do tasks, or will when the farm begins. */
static int32_t present(const struct run *run) {
  int32_t num = 0;
  for (const struct member *m = run->members; m; m = m->next)
    num += m->state == IN;
  return num;
}

static void tell(const struct run *run, int32_t kind, int32_t dmi_id, int64_t value) {
  DMI_farm_event_t event = {.kind = kind, .dmi_id = dmi_id, .value = value};
  if (!run->farm->event) return;
  event.tasks = run->farm->tasks;
  event.done = run->look.done;
  event.failed = run->look.failed;
  event.processes = present(run);
  event.seconds = run->begun ? clock_s() - run->begin : 0;
  run->farm->event(&event, run->farm->event_arg);
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

static int32_t start_team(struct run *run, const struct member *m) {
  int32_t num = run->farm->threads > 0 ? run->farm->threads : m->core > 0 ? m->core : 1;
  struct dmi_farm_team *more =
      realloc(run->teams, (size_t)(run->team_num + 1) * sizeof(*run->teams));
  if (!more) return dmi_fail(DMI_ENOMEM);
  run->teams = more;
  dmi_farm_team_start(&more[run->team_num], &run->at, m->dmi_id, num);
  if (more[run->team_num].num) {
    run->team_num++;
  } else {
    dmi_farm_team_join(&more[run->team_num], run->process);
  }
  return DMI_TRUE;
}

static void end_team(struct run *run, struct dmi_farm_team *team) {
  dmi_farm_team_join(team, run->process);
  *team = run->teams[--run->team_num];
}

/* The members at this time, *num of them.  NULL: DMI_errno() says why. */
static DMI_node_t *all_nodes(struct run *run, int32_t *num) {
  for (int32_t room = 16;; room *= 2) {
    DMI_node_t *nodes = malloc((size_t)room * sizeof(*nodes));
    if (!nodes) {
      (void)dmi_fail(DMI_ENOMEM);
      return NULL;
    }
    if (!dmi_call_nodes(run->process, nodes, num, room)) {
      free(nodes);
      return NULL;
    }
    if (*num < room) return nodes;
    free(nodes);
  }
}

/* Starts threads in all processes that were welcomed and have not asked to leave. */
static int32_t start_all(struct run *run) {
  for (const struct member *m = run->members; m; m = m->next) {
    if (m->state == IN && !start_team(run, m)) return DMI_FALSE;
  }
  return DMI_TRUE;
}

/* ---- Members -------------------------------------------------------------------------------- */

static struct member *member_of(const struct run *run, int32_t dmi_id) {
  struct member *m = run->members;
  while (m && m->dmi_id != dmi_id)
    m = m->next;
  return m;
}

/* NULL: no memory. */
static struct member *add(struct run *run, const DMI_node_t *node) {
  struct member **end = &run->members, *m = calloc(1, sizeof(*m));
  if (!m) {
    (void)dmi_fail(DMI_ENOMEM);
    return NULL;
  }
  while (*end)
    end = &(*end)->next;
  m->dmi_id = node->dmi_id;
  m->core = node->core;
  return *end = m;
}

/* It is gone: a goodbye has its answer, or gets it now. */
static void drop(struct run *run, struct member *m) {
  struct member **at = &run->members;
  while (*at != m)
    at = &(*at)->next;
  *at = m->next;
  if (m->state == GOES) (void)dmi_status_wait(dmi_status_of(&m->goodbye));
  free(m);
}

/* The last goodbye to it, if there was one, has its answer. */
static void say_goodbye(struct run *run, struct member *m) {
  m->state = GOES;
  (void)dmi_call_goodbye(run->process, m->dmi_id, &m->goodbye);
}

/* No thread runs there.  NULL: it is lost. */
static void dismiss(struct run *run, struct member *m) {
  if (!m) return;
  m->state = OUT;
  tell(run, DMI_FARM_LEAVE, m->dmi_id, 0);
  if (m->dmi_id != run->me) say_goodbye(run, m);
}

/* What became of a goodbye?  UNDER_WAY: nothing yet. */
static int32_t answer_of(struct member *m) {
  struct dmi_status *status = dmi_status_of(&m->goodbye);
  return dmi_status_is_done(status) ? dmi_status_wait(status) : UNDER_WAY;
}

/* Forgets those that have left.  Where threads still ran that the program itself has made, the
 * notice DMI_CLOSE does not come again: so goodbye is said again, with each notice of others. */
static void look_at_goodbyes(struct run *run) {
  for (struct member *m = run->members, *next; m; m = next) {
    int32_t error = m->state == GOES ? answer_of(m) : UNDER_WAY;
    next = m->next;
    if (error == DMI_OK || error == DMI_ENOTASKED) drop(run, m);
    if (error == DMI_EBUSY) say_goodbye(run, m);
  }
}

/* All is done: waits until those that were dismissed have left, or cannot. */
static void finish_goodbyes(struct run *run) {
  while (run->members) {
    struct member *m = run->members;
    if (m->state == GOES) {
      int32_t error = dmi_status_wait(dmi_status_of(&m->goodbye));
      if (error == DMI_EBUSY || error == DMI_ENOMEM) say_goodbye(run, m);
    }
    drop(run, m);
  }
}

/* ---- Notices -------------------------------------------------------------------------------- */

/* Enough processes are there. */
static int32_t begin_if_ready(struct run *run) {
  int32_t wanted = run->farm->processes > 0 ? run->farm->processes : 1;
  if (run->begun || present(run) < wanted) return DMI_TRUE;
  run->begun = true;
  run->begin = clock_s();
  return start_all(run);
}

static int32_t on_open(struct run *run, const DMI_node_t *node) {
  struct member *m = member_of(run, node->dmi_id);
  if (m && m->state != GOES) return DMI_TRUE; /* DMI_nodes has told of it before */
  if (m) drop(run, m);                        /* it has left, and another one has its id */
  if (!dmi_call_welcome(run->process, node->dmi_id)) return DMI_TRUE; /* it is gone already */
  m = add(run, node);
  if (!m) return DMI_FALSE;
  tell(run, DMI_FARM_JOIN, node->dmi_id, 0);
  if (run->over) return DMI_TRUE;
  return run->begun ? start_team(run, m) : begin_if_ready(run);
}

static int32_t on_close(struct run *run, const DMI_node_t *node) {
  struct member *m = member_of(run, node->dmi_id);
  struct dmi_farm_team *team = team_of(run, node->dmi_id);
  if (m && m->state == GOES) {
    int32_t error = answer_of(m); /* of the goodbye before: there may be memory now */
    if (error != DMI_OK && error != UNDER_WAY) say_goodbye(run, m);
    return DMI_TRUE;
  }
  if (m && m->state == OUT && !team) return DMI_TRUE; /* DMI_nodes has told of it before */
  if (!m && !(m = add(run, node))) return DMI_FALSE;
  m->state = OUT;
  if (!team) {
    dismiss(run, m);
    return DMI_TRUE;
  }
  team->stopping = true;
  return ask(run, DMI_FARM_STOP, node->dmi_id + 1);
}

static int32_t on_lost(struct run *run, const DMI_node_t *node) {
  struct dmi_farm_team *team = team_of(run, node->dmi_id);
  struct member *m = member_of(run, node->dmi_id);
  run->lost = true;
  if (m) {
    drop(run, m);
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
  DMI_node_t *nodes = all_nodes(run, &num);
  if (!nodes) return DMI_FALSE;
  run->over = true; /* no threads yet */
  for (int32_t i = 0; good && i < num; i++) {
    if (nodes[i].state == DMI_OPENED) good = add(run, &nodes[i]) != NULL;
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
    dismiss(run, member_of(run, dmi_id));
  }
  return DMI_TRUE;
}

static int32_t look_around(struct run *run) {
  look_at_goodbyes(run);
  if (!dismiss_stopped(run) || !ask(run, DMI_FARM_LOOK, 0)) return DMI_FALSE;
  if (run->look.error) return dmi_fail(run->look.error);
  if (run->begun && !run->team_num && run->look.done < run->farm->tasks)
    tell(run, DMI_FARM_IDLE, 0, 0);
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
    if (!dmi_call_poll(run->process, &node)) return DMI_FALSE;
    if (!on_notice(run, &node) || !look_around(run)) return DMI_FALSE;
  }
  return DMI_TRUE;
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* All threads are ending.  Processes that wait for that may leave. */
static void end_all(struct run *run) {
  while (run->team_num) {
    struct dmi_farm_team team = run->teams[run->team_num - 1];
    end_team(run, &run->teams[run->team_num - 1]);
    if (team.stopping) dismiss(run, member_of(run, team.dmi_id));
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
    run->farm->seconds = clock_s() - run->begin;
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
         dmi_farm_table_new(&run->at, run->about_addr, farm->tasks) && (run->table = run->at.addr);
}

/* Unmaps what is there: the results, too, if the farm has failed. */
static void unmake(struct run *run, bool good) {
  dmi_farm_table_free(run->process, run->table);
  if (run->about_addr) (void)dmi_call_munmap(run->process, run->about_addr, NULL);
  if (!good && run->about.results) (void)dmi_call_munmap(run->process, run->about.results, NULL);
  free(run->teams);
}

static int32_t bad_farm(struct dmi_process *process, const DMI_farm_t *farm) {
  if (!farm) return dmi_because(DMI_EINVAL, "the pointer to the farm is NULL");
  if (farm->tasks < 0 || farm->result_size < 0 || farm->job_size < 0 || farm->processes < 0 ||
      farm->threads < 0 || farm->retries < 0)
    return dmi_because(DMI_EINVAL, "a number of the farm is negative");
  if (farm->job_size > INT64_C(1) << 62) return dmi_because(DMI_ESIZE, "the job is too large");
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
  finish_goodbyes(run);
  return dmi_result(error);
}

int32_t dmi_farm_run(struct dmi_process *process, DMI_farm_t *farm) {
  struct run run = {.process = process, .farm = farm, .at.process = process};
  int32_t error = bad_farm(process, farm), good = DMI_TRUE;
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
  return dmi_result(error);
}
