/*
 * remote_user.c - what programs do: they issue calls, hold, drop and read values.
 *
 * A program computes the hash of each value when it issues the call; a value that is read, or given
 * to a function, must have it.
 */
#include <string.h>

#include "dmi_api.h"
#include "remote/book_int.h"
#include "remote_sim.h"

#define MOST_SIZE 20 /* bytes of a value */

static uint64_t mix(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * UINT64_C(0xbf58476d1ce4e5b9);
  return hash ^ hash >> 29;
}

uint64_t prog_hash(uint64_t function, const uint64_t *inputs, uint32_t num, uint32_t i) {
  uint64_t hash = mix(function, i);
  for (uint32_t at = 0; at < num; at++)
    hash = mix(hash, inputs[at]);
  return hash;
}

/* A function fails whenever it runs, or never. */
bool prog_fails(uint64_t function) {
  return function % 2 == 0;
}

bool prog_ends(const struct world *world, uint64_t function) {
  return world->fatal && function / 1024 % 128 == 0;
}

static void put(struct world *world, struct program *program) {
  struct process *process = &world->process[program->id.process];
  uint64_t hash = rng_next(&world->rng), size = rng_range(&world->rng, 1, MOST_SIZE), number;
  number = dmi_remote_book_put(program->book, page_new(world, process, hash, true), size);
  *prog_name(program, number) = (struct name){.hash = hash, .size = size};
  prog_add_handle(program, number);
}

/* What the program expects of a call that it has issued. */
static void expect(struct program *program, const struct dmi_remote_issue *issue,
                   const uint64_t *outputs, uint64_t call) {
  uint64_t hashes[8];
  bool failed = prog_fails(issue->function);
  prog_name(program, call);
  for (uint32_t i = 0; i < issue->input_num; i++) {
    const struct name *name = prog_name(program, issue->inputs[i]);
    hashes[i] = name->hash;
    failed = failed || name->failed;
  }
  for (uint32_t i = 0; i < issue->output_num; i++) {
    uint64_t hash = prog_hash(issue->function, hashes, issue->input_num, i);
    *prog_name(program, outputs[i]) =
        (struct name){.hash = hash, .size = issue->sizes[i], .failed = failed};
    prog_add_handle(program, outputs[i]);
  }
}

static void issue(struct world *world, struct program *program) {
  uint64_t inputs[4], sizes[3], outputs[3];
  struct dmi_remote_issue issue = {
      .function = rng_next(&world->rng) | 1, .inputs = inputs, .sizes = sizes};
  issue.kind = (uint32_t)(issue.function >> 8) % 5;
  if (world->fails && rng_once_in(&world->rng, 100)) issue.function--;
  issue.args = &issue.function;
  issue.arg_size = sizeof(issue.function);
  issue.input_num = program->handle_num ? rng_below(&world->rng, 5) : 0;
  issue.output_num = rng_once_in(&world->rng, 20) ? 0 : rng_range(&world->rng, 1, 3);
  issue.on = rng_once_in(&world->rng, 10) ? rng_range(&world->rng, 1, world->last_uid) : 0;
  issue.late = rng_once_in(&world->rng, 10);
  for (uint32_t i = 0; i < issue.input_num; i++) {
    /* Most are recent ones: chains. */
    uint32_t num = (uint32_t)program->handle_num, back = num < 6 ? num : 6;
    inputs[i] =
        program->handles[rng_once_in(&world->rng, 4) ? rng_below(&world->rng, num)
                                                     : num - 1 - rng_below(&world->rng, back)];
  }
  for (uint32_t i = 0; i < issue.output_num; i++)
    sizes[i] = rng_range(&world->rng, 1, MOST_SIZE);
  if (dmi_remote_book_call(program->book, &issue, outputs) != DMI_OK) {
    sim_wrong(world, "a call is refused");
    return;
  }
  /* Numbers are given in order: the call's is before those of its outputs. */
  expect(program, &issue, outputs, issue.output_num ? outputs[0] - 1 : program->book->last);
  prog_act(world, program);
  world->totals->calls++;
}

static void drop(struct world *world, struct program *program, size_t at) {
  uint64_t number = program->handles[at];
  program->handles[at] = program->handles[--program->handle_num];
  if (!dmi_remote_book_drop(program->book, number)) sim_wrong(world, "a handle is refused");
  prog_act(world, program);
}

/* Begins to read a value, or goes on with it.  False: it is not made yet. */
static bool read_it(struct world *world, struct program *program) {
  struct dmi_remote_result at;
  const struct name *name = &program->names[program->reads];
  if (!dmi_remote_book_look(program->book, program->reads, true, &at)) {
    sim_wrong(world, "value %llu is not there", (unsigned long long)program->reads);
    return false;
  }
  program->reading = true;
  if (at.state == DMI_REMOTE_PENDING) {
    prog_parent_waits(world, program, true);
    return false;
  }
  if (at.state == DMI_REMOTE_FAILED) {
    const bool given_up = dmi_remote_book_counts(program->book).given_up > 0;
    /* What a call made that is given up when it is done again is not made any more, either. */
    bool lost = (world->forgets || given_up) && at.why->error == DMI_ELOST;
    bool right =
        name->failed && at.why->error == DMI_EINVAL && !strcmp(at.why->sentence, "it fails");
    /* Chance may end as many processes with a call as it would have to cost. */
    bool fatal = given_up && at.why->error == DMI_EREMOTE;
    if (!lost && !right && !fatal)
      sim_wrong(world, "value %llu fails: %s", (unsigned long long)program->reads,
                at.why->sentence);
    world->totals->failed += right;
    world->totals->given_up += lost;
    world->totals->fatal += fatal;
    program->reads = 0;
    program->reading = false;
    return true;
  }
  job_add(world, &(struct job){.kind = J_READ,
                               .process = program->id.process,
                               .program = program,
                               .number = program->reads,
                               .addr = at.addr});
  return true;
}

void prog_read_ends(struct world *world, struct program *program, const struct job *job) {
  const struct page *page = page_at(world, job->addr);
  program->reading = false;
  if (!page || page->lost) {
    dmi_remote_book_unreadable(program->book, job->number, job->addr);
    prog_act(world, program);
    return; /* and looks again */
  }
  if (page->bytes != program->names[job->number].hash || program->names[job->number].failed)
    sim_wrong(world, "value %llu has wrong bytes", (unsigned long long)job->number);
  world->totals->reads++;
  program->reads = 0;
}

static void start_reading(struct world *world, struct program *program) {
  program->reads = program->handles[rng_below(&world->rng, (uint32_t)program->handle_num)];
  read_it(world, program);
}

/* All is issued: reads some, drops all, closes. */
static bool finish(struct world *world, struct program *program) {
  struct dmi_remote_book_counts counts = dmi_remote_book_counts(program->book);
  if (program->hasty && rng_once_in(&world->rng, 8)) {
    prog_close(world, program);
  } else if (program->handle_num && rng_below(&world->rng, 2)) {
    start_reading(world, program);
  } else if (program->handle_num) {
    drop(world, program, rng_below(&world->rng, (uint32_t)program->handle_num));
  } else if (counts.undone) {
    prog_parent_waits(world, program, true);
    return false;
  } else {
    prog_close(world, program);
  }
  return true;
}

bool prog_step(struct world *world, struct program *program) {
  uint32_t what = rng_below(&world->rng, 100);
  if (program->closed || program->blocked || program->reading) return false;
  if (program->reads) return read_it(world, program);
  if (!program->ops) return finish(world, program);
  prog_parent_waits(world, program, false);
  if (what < 8 || !program->handle_num) {
    put(world, program);
  } else if (what < 60 || program->handle_num < 3) {
    if (dmi_remote_book_full(program->book)) {
      program->blocked = true;
      prog_parent_waits(world, program, true);
      return false;
    }
    program->ops--;
    issue(world, program);
  } else if (what < 64) {
    start_reading(world, program);
  } else if (what < 70) {
    uint64_t number = program->handles[rng_below(&world->rng, (uint32_t)program->handle_num)];
    if (!dmi_remote_book_hold(program->book, number)) sim_wrong(world, "a handle is refused");
    prog_add_handle(program, number);
  } else {
    drop(world, program, rng_below(&world->rng, (uint32_t)program->handle_num));
  }
  return true;
}
