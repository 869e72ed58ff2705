/*
 * remote_proc.c - processes: they join, leave, are lost; their pages; what takes time in them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "remote_sim.h"

/* ---- Pages ---------------------------------------------------------------------------------- */

/* A page that was freed is used again at once: whoever reads it late gets the wrong bytes. */
int64_t page_new(struct world *world, struct process *process, uint64_t bytes, bool put) {
  size_t at;
  (void)world;
  if (process->free_num) {
    at = process->free_pages[--process->free_num];
  } else {
    DMI_XALLOC_GROW(process->pages, process->page_num, process->page_capacity);
    at = process->page_num++;
  }
  process->pages[at] = (struct page){.bytes = bytes, .used = true, .put = put};
  return (int64_t)((uint64_t)process->uid << 32 | (at + 1));
}

struct page *page_at(struct world *world, int64_t addr) {
  struct process *process = &world->process[(uint64_t)addr >> 32 & 0xff];
  size_t at = (size_t)(uint32_t)addr - 1;
  return (uint64_t)addr >> 32 < PROCESSES && at < process->page_num ? &process->pages[at] : NULL;
}

void page_free(struct world *world, int64_t addr, bool retire) {
  struct page *page = page_at(world, addr);
  struct process *process = &world->process[addr >> 32];
  if (!page || !page->used) {
    sim_wrong(world, "page %llx is freed, and is free", (unsigned long long)addr);
    return;
  }
  if (retire && !page->lost) sim_wrong(world, "a page is found lost, and is not");
  page->used = false;
  page->retired = retire;
  if (retire || process->state == P_GONE) return;
  DMI_XALLOC_GROW(process->free_pages, process->free_num, process->free_capacity);
  process->free_pages[process->free_num++] = (size_t)(uint32_t)addr - 1;
}

/* ---- Actions of a pool ---------------------------------------------------------------------- */

static struct msg *copy_call(const struct dmi_remote_call *call, struct msg *msg) {
  msg->number = call->number;
  msg->num = call->output_num;
  msg->results = dmi_xalloc(call->output_num + 1, sizeof(*msg->results));
  for (uint32_t i = 0; i < call->output_num; i++) {
    msg->results[i] = call->outputs[i].at;
    msg->results[i].why = NULL;
  }
  return msg;
}

/* References are not shared between machines. */
static struct dmi_remote_why *copy_why(const struct dmi_remote_why *why) {
  return why ? dmi_remote_why_new(why->error, why->function, why->host, why->sentence) : NULL;
}

static void send_to_client(struct world *world, struct process *process,
                           const struct dmi_remote_pool_action *a) {
  struct msg *msg = net_new(a->type == DMI_REMOTE_SEND_DONE     ? M_DONE
                            : a->type == DMI_REMOTE_SEND_RETURN ? M_RETURN
                            : a->type == DMI_REMOTE_SEND_FIRED  ? M_FIRED
                                                                : M_STOLEN,
                            a->client);
  if (a->call) copy_call(a->call, msg);
  msg->reason = a->reason;
  msg->took = a->took;
  msg->result.why = copy_why(a->why);
  if (a->type == DMI_REMOTE_SEND_RETURN) {
    msg->seq = a->reason == DMI_REMOTE_INPUT_LOST ? a->number : 0;
    msg->result.addr = a->result.addr;
    world->totals->returned++;
    world->totals->stolen += a->reason == DMI_REMOTE_STOLEN;
  }
  net_send(world, process->uid, a->to, msg);
  if (a->type == DMI_REMOTE_SEND_FIRED) return;
  msg = net_new(M_LOAD, a->client);
  msg->load = dmi_remote_pool_load(process->pool, a->client);
  msg->load.rate = rng_once_in(&world->rng, 8) ? 1 : 1000;
  net_send(world, process->uid, a->to, msg);
}

static void send_have(struct world *world, struct process *process,
                      const struct dmi_remote_pool_action *a) {
  struct msg *msg = net_new(M_HAVE, a->client);
  msg->number = a->number;
  msg->gen = a->gen;
  msg->seq = a->seq;
  msg->result = a->result;
  msg->result.why = copy_why(a->result.why);
  msg->carries = a->bytes != NULL;
  if (msg->carries) msg->bytes[0] = *(const uint64_t *)a->bytes;
  net_send(world, process->uid, a->to, msg);
}

static void start_fetch(struct world *world, const struct process *process,
                        struct dmi_remote_fetch *fetch) {
  bool carried = fetch->carried != NULL;
  fetch->buffer = carried ? fetch->carried : dmi_xalloc(1, sizeof(uint64_t));
  fetch->carried = NULL;
  world->totals->carried += carried;
  job_add(world, &(struct job){
                     .kind = J_FETCH, .process = process->uid, .fetch = fetch, .carried = carried});
}

static void start(struct world *world, struct process *process, struct dmi_remote_run *run) {
  struct program *program = prog_find(world, run->call->client);
  uint64_t number = run->call->number;
  struct name *name;
  job_add(world, &(struct job){.kind = J_RUN, .process = process->uid, .run = run});
  world->totals->fired++;
  sim_say(world, "%u: fires client %u.%u call %llu\n", process->uid, run->call->client.process,
          run->call->client.n, (unsigned long long)number);
  if (process->empty) sim_wrong(world, "pool %u was empty, and fires a call", process->uid);
  if (!program) return; /* it has closed */
  name = &program->names[number];
  if (++name->fired > 1 && !world->losses)
    sim_wrong(world, "call %llu is fired %u times, and nothing is lost", (unsigned long long)number,
              name->fired);
  if (name->cost >= DMI_REMOTE_LOSSES)
    sim_wrong(world, "call %llu has ended %u processes, and is fired", (unsigned long long)number,
              name->cost);
  if (name->cost >= DMI_REMOTE_LOSSES_AWAY && process->uid == program->id.process)
    sim_wrong(world, "call %llu has ended %u processes, and is fired in its client's",
              (unsigned long long)number, name->cost);
  if (memcmp(run->call->args, &run->call->function, 8) != 0)
    sim_wrong(world, "call %llu has other arguments", (unsigned long long)number);
}

static void carry_out(struct world *world, struct process *process,
                      const struct dmi_remote_pool_action *a) {
  switch (a->type) {
    case DMI_REMOTE_SEND_HAVE:
      send_have(world, process, a);
      break;
    case DMI_REMOTE_SEND_DONE:
    case DMI_REMOTE_SEND_RETURN:
    case DMI_REMOTE_SEND_STOLEN:
    case DMI_REMOTE_SEND_FIRED:
      send_to_client(world, process, a);
      break;
    case DMI_REMOTE_COMPLETE:
      break;
    case DMI_REMOTE_FETCH:
      process->buffers += a->fetch->size;
      sim_say(world, "%u: fetch client %u.%u number %llu addr %llx\n", process->uid,
              a->client.process, a->fetch->client.n, (unsigned long long)a->fetch->number,
              (unsigned long long)a->fetch->addr);
      start_fetch(world, process, a->fetch);
      break;
    case DMI_REMOTE_RELEASE:
      process->buffers -= a->fetch->size;
      free(a->fetch->buffer);
      a->fetch->buffer = NULL;
      break;
    case DMI_REMOTE_RUN:
      start(world, process, a->run);
      break;
    case DMI_REMOTE_FREE:
      page_free(world, a->result.addr, a->retire);
      break;
    case DMI_REMOTE_EMPTY:
      process->empty = true;
  }
}

static void check(struct world *world, const struct process *process) {
  struct dmi_remote_pool_counts counts = dmi_remote_pool_counts(process->pool);
  uint64_t limit = process->config.limit;
  if (process->blocked || !limit) return;
  if (counts.used > limit || process->buffers > limit)
    sim_wrong(world, "pool %u uses %llu bytes, has buffers of %llu, and its limit is %llu",
              process->uid, (unsigned long long)counts.used, (unsigned long long)process->buffers,
              (unsigned long long)limit);
  if (counts.used > world->totals->peak) world->totals->peak = counts.used;
}

void proc_act(struct world *world, struct process *process) {
  const struct dmi_remote_pool_action *action;
  while ((action = dmi_remote_pool_next(process->pool)) != NULL)
    carry_out(world, process, action);
  check(world, process);
}

/* ---- Jobs ----------------------------------------------------------------------------------- */

void job_add(struct world *world, const struct job *job) {
  DMI_XALLOC_GROW(world->jobs, world->job_num, world->job_capacity);
  world->jobs[world->job_num++] = *job;
}

void job_end(struct world *world, size_t at) {
  world->jobs[at] = world->jobs[--world->job_num];
}

static void fetch_ends(struct world *world, const struct job *job) {
  struct process *process = &world->process[job->process];
  const struct page *page = page_at(world, job->fetch->addr);
  bool good = job->carried || (page && !page->lost);
  sim_say(world, "%u: fetched client .%u number %llu addr %llx good %d\n", process->uid,
          job->fetch->client.n, (unsigned long long)job->fetch->number,
          (unsigned long long)job->fetch->addr, good);
  if (good && !job->carried) *(uint64_t *)job->fetch->buffer = page->bytes;
  dmi_remote_pool_fetched(process->pool, job->fetch, good);
  proc_act(world, process);
}

/* Compares the inputs with what the program knows.  False: a function of a closed client. */
static void check_inputs(struct world *world, const struct dmi_remote_run *run) {
  const struct program *program = prog_find(world, run->call->client);
  for (uint32_t i = 0; program && i < run->call->input_num; i++) {
    uint64_t number = run->call->inputs[i].number;
    const uint64_t *bytes = run->inputs[i]->buffer;
    if (!bytes || *bytes != program->names[number].hash || program->names[number].failed)
      sim_wrong(world, "call %llu runs with wrong bytes of value %llu",
                (unsigned long long)run->call->number, (unsigned long long)number);
  }
}

/* True: the function has ended its process. */
static bool ends(struct world *world, struct process *process, const struct job *job) {
  const struct dmi_remote_call *call = job->run->call;
  struct program *program = prog_find(world, call->client);
  if (!program || !prog_ends(world, call->function)) return false;
  if (process->fixed) {
    program->names[call->number].cost = 0;
    return false;
  }
  program->names[call->number].cost++;
  sim_say(world, "call %llu ends its process\n", (unsigned long long)call->number);
  proc_crash(world, process, true);
  return true;
}

static void run_ends(struct world *world, struct process *process, struct dmi_remote_run *run) {
  const struct dmi_remote_call *call = run->call;
  uint64_t inputs[8], hashes[8];
  const void *carry[8] = {NULL};
  struct dmi_remote_result made[8] = {0};
  check_inputs(world, run);
  for (uint32_t i = 0; i < call->input_num; i++)
    inputs[i] = run->inputs[i]->buffer ? *(uint64_t *)run->inputs[i]->buffer : 0;
  if (prog_fails(call->function)) {
    struct dmi_remote_why *why = dmi_remote_why_new(DMI_EINVAL, "f", "host", "it fails");
    dmi_remote_pool_failed(process->pool, run, why);
    dmi_remote_why_release(why);
  } else {
    for (uint32_t i = 0; i < call->output_num; i++) {
      uint64_t hash = prog_hash(call->function, inputs, call->input_num, i);
      if (call->outputs[i].spare) continue;
      hashes[i] = hash;
      if (world->carries && call->outputs[i].at.size >= sizeof(hash)) carry[i] = &hashes[i];
      made[i] = (struct dmi_remote_result){.state = DMI_REMOTE_DONE,
                                           .addr = page_new(world, process, hash, false),
                                           .size = call->outputs[i].at.size};
    }
    run->carry = carry;
    dmi_remote_pool_done(process->pool, run, made, 1 + rng_below(&world->rng, 100000));
  }
  proc_act(world, process);
}

void job_step(struct world *world) {
  size_t at = world->newest && rng_below(&world->rng, 6)
                  ? world->job_num - 1
                  : rng_below(&world->rng, (uint32_t)world->job_num);
  struct job job = world->jobs[at];
  struct process *process = &world->process[job.process];
  if (job.kind == J_RUN && job.program) return; /* its own client goes on first */
  if (job.kind == J_RUN && !job.opened && rng_once_in(&world->rng, 40)) {
    struct program *outer = prog_find(world, job.run->call->client);
    uint32_t depth = outer ? outer->depth + 1 : 9;
    world->jobs[at].opened = true;
    if (depth > 2 || !process->heard[1].uid) return;
    world->totals->nested++;
    world->jobs[at].program =
        prog_open(world, process, rng_range(&world->rng, 1, 8), job.run, depth);
    return;
  }
  if (job.kind == J_RUN && ends(world, process, &job)) return;
  job_end(world, at);
  if (job.kind == J_FETCH)
    fetch_ends(world, &job);
  else if (job.kind == J_RUN)
    run_ends(world, process, job.run);
  else
    prog_read_ends(world, job.program, &job);
}

/* ---- Joins, leaves, losses ------------------------------------------------------------------ */

struct process *proc_join(struct world *world, bool fixed) {
  struct process *process = &world->process[++world->last_uid];
  struct msg msg = {.kind = M_SERVES};
  process->uid = world->last_uid;
  process->state = P_LIVE;
  process->fixed = fixed;
  process->config.self = process->uid;
  process->config.cores = rng_range(&world->rng, 1, 3);
  /* The fixed one can hold any call. */
  process->config.limit = world->limited ? rng_range(&world->rng, fixed ? 160 : 60, 250) : 0;
  process->pool = dmi_remote_pool_new(&process->config);
#ifdef DMI_MUTATIONS
  dmi_remote_pool_set_break(process->pool, world->options->pool_break);
#endif
  process->serves = true;
  msg.server = (struct dmi_remote_server){
      .uid = process->uid, .cores = process->config.cores, .limit = process->config.limit};
  net_send_all(world, process->uid, &msg);
  for (dmi_uid_t uid = 1; uid < process->uid; uid++) { /* the others answer */
    struct msg *answer;
    if (world->process[uid].state != P_LIVE) continue;
    answer = net_new(M_SERVES, (dmi_remote_client_t){0, 0});
    answer->server = (struct dmi_remote_server){.uid = uid,
                                                .cores = world->process[uid].config.cores,
                                                .limit = world->process[uid].config.limit};
    net_send(world, uid, process->uid, answer);
  }
  world->totals->joins++;
  return process;
}

void proc_leave(struct world *world, struct process *process) {
  struct msg msg = {.kind = M_LEAVES, .server = {.uid = process->uid}};
  process->state = P_LEAVING;
  if (rng_below(&world->rng, 2)) net_send_all(world, process->uid, &msg);
  dmi_remote_pool_leave(process->pool);
  proc_act(world, process);
  if (rng_below(&world->rng, 2)) net_send_all(world, process->uid, &msg);
  world->totals->leaves++;
}

/* Nobody carries out what the pool of a process that has gone asks for. */
static void ignore(struct world *world, struct process *process) {
  const struct dmi_remote_pool_action *a;
  while ((a = dmi_remote_pool_next(process->pool)) != NULL) {
    struct job job = {.process = process->uid, .fetch = a->fetch, .run = a->run};
    job.kind = a->type == DMI_REMOTE_FETCH ? J_FETCH : J_RUN;
    if (a->type == DMI_REMOTE_RELEASE) free(a->fetch->buffer);
    if (a->type == DMI_REMOTE_FETCH) a->fetch->buffer = NULL;
    if (a->type == DMI_REMOTE_FETCH || a->type == DMI_REMOTE_RUN) job_add(world, &job);
  }
}

/* Ends the jobs of a process that has gone, without effect, and frees its pool and clients. */
static void bury(struct world *world, struct process *process) {
  struct dmi_remote_why *why = dmi_remote_why_new(1, "", "", "");
  struct program *program, *next;
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++) {
    dmi_remote_pool_gone(process->pool, uid);
    ignore(world, process);
  }
  for (size_t at = world->job_num; at-- > 0;) {
    struct job job = world->jobs[at];
    if (job.process != process->uid) continue;
    job_end(world, at);
    if (job.kind == J_FETCH) dmi_remote_pool_fetched(process->pool, job.fetch, false);
    if (job.kind == J_RUN) dmi_remote_pool_failed(process->pool, job.run, why);
    ignore(world, process);
  }
  dmi_remote_why_release(why);
  for (program = world->programs; program; program = next) {
    next = program->next;
    if (program->id.process == process->uid) prog_forget(world, program);
  }
  dmi_remote_pool_free(process->pool);
  process->pool = NULL;
  process->state = P_GONE;
}

bool proc_part(struct world *world) {
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++) {
    struct process *process = &world->process[uid];
    bool busy = false;
    if (process->state != P_LEAVING || !process->empty) continue;
    for (size_t i = 0; i < world->job_num; i++)
      busy = busy || world->jobs[i].process == uid;
    if (busy || rng_below(&world->rng, 2)) continue;
    net_cut(world, uid, M_LEFT, true);
    bury(world, process);
    return true;
  }
  return false;
}

void proc_crash(struct world *world, struct process *process, bool all) {
  uint32_t often = rng_below(&world->rng, 4); /* how often its pages are lost */
  sim_say(world, "%u: is lost\n", process->uid);
  world->losses++;
  world->totals->losses++;
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++) {
    struct process *owner = &world->process[uid];
    for (size_t i = 0; i < owner->page_num; i++) {
      struct page *page = &owner->pages[i];
      bool lost = uid == process->uid ? rng_below(&world->rng, 4) <= often
                                      : rng_once_in(&world->rng, 30); /* it had moved there */
      if (!page->used || page->put || !lost) continue;
      page->lost = true;
      world->totals->lost_pages++;
    }
  }
  net_cut(world, process->uid, M_LOST, all);
  bury(world, process);
}

void proc_free(struct world *world, struct process *process) {
  if (process->pool) bury(world, process);
  free(process->pages);
  free(process->free_pages);
}
