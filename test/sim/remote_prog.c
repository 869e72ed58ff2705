/*
 * remote_prog.c - the clients of programs: their books, and what these ask for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "remote/book_int.h"
#include "remote_sim.h"

/* ---- Names and handles ---------------------------------------------------------------------- */

struct name *prog_name(struct program *program, uint64_t number) {
  while (program->name_num <= number) {
    DMI_XALLOC_GROW(program->names, program->name_num, program->name_capacity);
    program->names[program->name_num++] = (struct name){0};
  }
  return &program->names[number];
}

void prog_add_handle(struct program *program, uint64_t number) {
  DMI_XALLOC_GROW(program->handles, program->handle_num, program->handle_capacity);
  program->handles[program->handle_num++] = number;
}

struct program *prog_find(struct world *world, dmi_remote_client_t id) {
  struct program *program = world->programs;
  while (program && !dmi_remote_client_is(program->id, id))
    program = program->next;
  return program;
}

/* ---- Actions of a book ---------------------------------------------------------------------- */

/* A call is done again only if an output is needed. */
static void check_again(struct world *world, const struct program *program,
                        const struct dmi_remote_call *call) {
  const struct dmi_remote_entry *entry =
      dmi_remote_table_find(&program->book->calls, program->id, call->number);
  bool needed = false;
  for (uint32_t i = 0; i < call->output_num; i++) {
    const struct dmi_remote_item *item = entry->outputs[i];
    needed =
        needed || (item && item->at.state == DMI_REMOTE_PENDING && (item->handles || item->needs));
  }
  if (!needed)
    sim_wrong(world, "call %llu is done again for nothing", (unsigned long long)call->number);
}

static void send_call(struct world *world, struct program *program,
                      const struct dmi_remote_book_action *a) {
  const struct dmi_remote_call *call = a->call;
  const struct process *process = &world->process[program->id.process];
  struct msg *msg = net_new(M_CALL, call->client);
  size_t inputs = call->input_num * sizeof(*call->inputs);
  size_t outputs = call->output_num * sizeof(*call->outputs);
  msg->call = *call;
  msg->number = call->number;
  msg->call.inputs = dmi_xalloc(1, inputs + 1);
  msg->call.outputs = dmi_xalloc(1, outputs + 1);
  if (inputs) memcpy(msg->call.inputs, call->inputs, inputs);
  if (outputs) memcpy(msg->call.outputs, call->outputs, outputs);
  msg->call.args = &msg->call.function;
  if (call->gen > 1) check_again(world, program, call);
  if (process->leaving[a->to])
    sim_wrong(world, "call %llu is sent to %u, which leaves", (unsigned long long)call->number,
              a->to);
  net_send(world, program->id.process, a->to, msg);
}

static void tell_have(struct world *world, struct program *program,
                      const struct dmi_remote_book_action *a) {
  const struct dmi_remote_why *why = a->result.why;
  struct msg *msg = net_new(M_HAVE, program->id);
  msg->number = a->number;
  msg->gen = a->gen;
  msg->seq = a->seq;
  msg->result = a->result;
  if (why)
    msg->result.why = dmi_remote_why_new(why->error, why->function, why->host, why->sentence);
  world->totals->told++;
  net_send(world, program->id.process, a->to, msg);
}

static void send(struct world *world, const struct program *program,
                 const struct dmi_remote_book_action *a, enum kind kind) {
  struct msg *msg = net_new(kind, program->id);
  msg->number = a->number;
  msg->reader = a->reader;
  msg->seq = a->seq;
  msg->num = a->num;
  msg->rate = a->rate;
  msg->lost = a->lost;
  net_send(world, program->id.process, a->to, msg);
}

/* The page of a value whose server has gone. */
static void gone(struct world *world, const struct dmi_remote_book_action *a) {
  struct page *page = page_at(world, a->result.addr);
  if (!page || page->gone) sim_wrong(world, "a page goes twice");
  if (page && a->lost && !page->lost) sim_wrong(world, "a page is found lost, and is not");
  if (page) page->gone = true;
}

static void carry_out(struct world *world, struct program *program,
                      const struct dmi_remote_book_action *a) {
  switch (a->type) {
    case DMI_REMOTE_SEND_CALL:
      send_call(world, program, a);
      break;
    case DMI_REMOTE_SEND_WANT:
      world->totals->wants++;
      send(world, program, a, M_WANT);
      break;
    case DMI_REMOTE_TELL_HAVE:
      tell_have(world, program, a);
      break;
    case DMI_REMOTE_SEND_DROP:
      send(world, program, a, M_DROP);
      break;
    case DMI_REMOTE_SEND_STEAL:
      world->totals->steals++;
      send(world, program, a, M_STEAL);
      break;
    case DMI_REMOTE_WAKE:
      if (program->reading && program->reads == a->number) program->reading = false;
      break;
    case DMI_REMOTE_ROOM:
      program->blocked = false;
      break;
    case DMI_REMOTE_FREE_PUT:
      page_free(world, a->result.addr, a->lost);
      break;
    case DMI_REMOTE_GONE:
      gone(world, a);
  }
}

/* Counts everything anew. */
static void check(struct world *world, const struct program *program) {
  const struct dmi_remote_book *book = program->book;
  struct dmi_remote_host *host;
  for (size_t i = 0; i < book->values.size; i++) {
    const struct dmi_remote_item *item = book->values.slots[i].at;
    if (!item) continue;
    if (!item->handles && !item->needs && !item->lineage &&
        (item->at.state != DMI_REMOTE_PENDING || item->freed))
      sim_wrong(world, "value %llu is kept for nothing", (unsigned long long)item->number);
    if (item->needs && item->freed)
      sim_wrong(world, "value %llu is needed, and nobody makes it",
                (unsigned long long)item->number);
  }
  DL_FOREACH(book->hosts, host) {
    if (host->open && book->heap[host->at] != host) sim_wrong(world, "the heap is wrong");
  }
}

void prog_check_steal(struct world *world, const struct program *program) {
  const struct dmi_remote_book *book = program->book;
  const struct dmi_remote_host *dry = book->open ? book->heap[0] : NULL, *host;
  if (!dry || dry->robs || dry->unfit || dmi_remote_host_load(dry) >= dry->about.cores) return;
  DL_FOREACH(book->hosts, host) {
    if (host->open && host->ready > host->refused && !host->thief && host != dry)
      sim_wrong(world, "%u has %u calls too much, %u has none, and nobody steals", host->about.uid,
                host->ready, dry->about.uid);
  }
}

void prog_act(struct world *world, struct program *program) {
  const struct dmi_remote_book_action *action;
  while ((action = dmi_remote_book_next(program->book)) != NULL)
    carry_out(world, program, action);
  if (rng_once_in(&world->rng, 64)) check(world, program);
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

struct program *prog_open(struct world *world, struct process *process, uint32_t ops,
                          struct dmi_remote_run *parent, uint32_t depth) {
  struct program *program = dmi_xalloc(1, sizeof(*program));
  program->id = (dmi_remote_client_t){.process = process->uid, .n = ++process->clients};
  program->ops = ops;
  program->parent = parent;
  program->depth = depth;
  program->hasty = rng_once_in(&world->rng, 6);
  program->book = dmi_remote_book_new(&(struct dmi_remote_book_config){
      .client = program->id,
      .survive = world->survive,
      .lineage = world->forgets ? rng_range(&world->rng, 1, 20000) : 0,
      .most = rng_below(&world->rng, 2) ? rng_range(&world->rng, 1, 20000) : 0});
#ifdef DMI_MUTATIONS
  dmi_remote_book_set_break(program->book, world->options->book_break);
#endif
  program->next = world->programs;
  world->programs = program;
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++) {
    if (!process->heard[uid].uid) continue;
    dmi_remote_book_serves(program->book, &process->heard[uid]);
    prog_act(world, program);
    if (!process->leaving[uid]) continue;
    dmi_remote_book_leaves(program->book, uid);
    prog_act(world, program);
  }
  return program;
}

static struct job *job_of(struct world *world, const struct dmi_remote_run *run) {
  for (size_t i = 0; i < world->job_num; i++) {
    if (world->jobs[i].kind == J_RUN && world->jobs[i].run == run) return &world->jobs[i];
  }
  return NULL;
}

void prog_forget(struct world *world, struct program *program) {
  struct program **at = &world->programs;
  while (*at != program)
    at = &(*at)->next;
  *at = program->next;
  if (program->parent) {
    struct job *job = job_of(world, program->parent);
    if (job) job->program = NULL;
  }
  dmi_remote_book_free(program->book);
  free(program->handles);
  free(program->names);
  free(program);
}

void prog_parent_waits(struct world *world, struct program *program, bool waits) {
  struct process *process = &world->process[program->id.process];
  if (!program->parent || program->waits == waits) return;
  program->waits = waits;
  process->blocked = true;
  if (waits)
    dmi_remote_pool_waits(process->pool, program->parent);
  else
    dmi_remote_pool_resumes(process->pool, program->parent);
  proc_act(world, process);
}

void prog_close(struct world *world, struct program *program) {
  struct dmi_remote_book_counts counts = dmi_remote_book_counts(program->book);
  if (!program->hasty && (counts.values || counts.calls || counts.bytes || counts.lineage))
    sim_wrong(world, "a client that has dropped all has %llu values, %llu calls",
              (unsigned long long)counts.values, (unsigned long long)counts.calls);
  world->totals->again += counts.again;
  prog_parent_waits(world, program, false);
  /* A main client that is not hasty does not close before the end, so that what it leaves behind
     at servers is noticed. */
  if (!program->parent && !program->hasty) {
    program->closed = true;
    return;
  }
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++) {
    struct msg *msg = net_new(M_CLOSE, program->id);
    net_send(world, program->id.process, uid, msg);
  }
  /* What it had put is in its own pages, which go with it. */
  for (size_t i = 0; i < program->book->values.size; i++) {
    const struct dmi_remote_item *item = program->book->values.slots[i].at;
    if (item && item->put && item->at.state == DMI_REMOTE_DONE)
      page_free(world, item->at.addr, false);
  }
  world->totals->early += program->hasty;
  prog_forget(world, program);
}

/* ---- For --verbose -------------------------------------------------------------------------- */

void prog_print(const struct program *program) {
  const struct dmi_remote_book *book = program->book;
  fprintf(stderr, "client %u.%u: ops %u, blocked %d, reads %llu (waits %d), open servers %zu\n",
          program->id.process, program->id.n, program->ops, program->blocked,
          (unsigned long long)program->reads, program->reading, book->open);
  for (size_t i = 0; i < book->calls.size; i++) {
    const struct dmi_remote_entry *entry = book->calls.slots[i].at;
    if (!entry) continue;
    fprintf(stderr, "  call %llu.%u at %u seq %llu:", (unsigned long long)entry->call.number,
            entry->call.gen, entry->server ? entry->server->about.uid : 0,
            (unsigned long long)entry->call.seq);
    for (uint32_t at = 0; at < entry->call.input_num; at++) {
      const struct dmi_remote_item *item = entry->needs[at].value;
      fprintf(stderr, " %llu%s(state %d, of call %llu, pending %d, asked %u)",
              (unsigned long long)item->number, item->freed ? " freed" : "", (int)item->at.state,
              (unsigned long long)(item->maker ? item->maker->call.number : 0),
              entry->needs[at].pending, entry->needs[at].asked);
    }
    fprintf(stderr, "\n");
  }
}
