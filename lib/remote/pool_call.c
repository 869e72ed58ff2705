/*
 * pool_call.c - the way of a call through a pool: it comes, is complete, ready, fired, and is done
 * or has failed (docs/remote.md, "The pool").
 */
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "remote/pool_int.h"
#include "remote/bytes.h"

/* ---- It comes ------------------------------------------------------------------------------- */

/* A copy in one block: the task, uses, pointers, inputs, outputs, arguments. */
static struct dmi_remote_task *copy(const struct dmi_remote_call *call) {
  size_t inputs = call->input_num, outputs = call->output_num;
  size_t head = dmi_remote_round_up(sizeof(struct dmi_remote_task));
  size_t uses = dmi_remote_round_up(inputs * sizeof(struct dmi_remote_use));
  size_t fetches = dmi_remote_round_up(inputs * sizeof(struct dmi_remote_fetch *));
  size_t made = dmi_remote_round_up(outputs * sizeof(struct dmi_remote_value *));
  size_t in = dmi_remote_round_up(inputs * sizeof(*call->inputs));
  size_t out = dmi_remote_round_up(outputs * sizeof(*call->outputs));
  char *at = dmi_xalloc(1, head + uses + fetches + made + in + out + call->arg_size);
  struct dmi_remote_task *task = (struct dmi_remote_task *)(void *)at;
  task->call = *call;
  task->uses = (struct dmi_remote_use *)(void *)(at += head);
  task->fetches = (const struct dmi_remote_fetch **)(void *)(at += uses);
  task->outputs = (struct dmi_remote_value **)(void *)(at += fetches);
  task->call.inputs = (struct dmi_remote_input *)(void *)(at += made);
  task->call.outputs = (struct dmi_remote_output *)(void *)(at += in);
  task->call.args = at += out;
  if (inputs) memcpy(task->call.inputs, call->inputs, inputs * sizeof(*call->inputs));
  if (outputs) memcpy(task->call.outputs, call->outputs, outputs * sizeof(*call->outputs));
  if (call->arg_size) memcpy(at, call->args, call->arg_size);
  task->run = (struct dmi_remote_run){.call = &task->call, .inputs = task->fetches, .task = task};
  return task;
}

/* A correct client sends no other call.  It counts: numbers of outputs ascend, and no input is
 * between them. */
static bool is_sound(const struct dmi_remote_pool *pool, const struct dmi_remote_call *call) {
  const struct dmi_remote_pool_client *client =
      dmi_remote_table_find(&pool->clients, call->client, 0);
  const uint32_t outputs = call->output_num;
  const uint64_t first = outputs ? call->outputs[0].number : 0;
  const uint64_t last = outputs ? call->outputs[outputs - 1].number : 0;
  if (call->seq != (client ? client->received : 0) + 1 || !call->gen) return false;
  for (uint32_t i = 0; i < call->input_num; i++) {
    if (call->inputs[i].at.state == DMI_REMOTE_FAILED || !call->inputs[i].gen) return false;
    if (outputs && call->inputs[i].number >= first && call->inputs[i].number <= last) return false;
  }
  for (uint32_t i = 0; i < call->output_num; i++) {
    uint64_t number = call->outputs[i].number;
    const struct dmi_remote_value *value =
        dmi_remote_table_find(&pool->values, call->client, number);
    if (value && value->maker && !call->outputs[i].spare) return false;
    if (i && number <= call->outputs[i - 1].number) return false;
  }
  return true;
}

/* The call needs this value. */
static void attach(struct dmi_remote_pool *pool, struct dmi_remote_task *task, uint32_t i) {
  const struct dmi_remote_input *input = &task->call.inputs[i];
  struct dmi_remote_value *value = dmi_remote_value_get(pool, task->client, input->number);
  if (task->call.seq >= value->early) value->early = 0;
  if (input->at.state == DMI_REMOTE_DONE) {
    struct dmi_remote_result at = input->at;
    at.why = NULL;
    /* A HAVE may have said more: the CALL was sent before, and overtaken. */
    if (input->gen >= value->gen) dmi_remote_value_learn(pool, value, input->gen, &at);
  } else if (value->gen < input->gen) {
    value->gen = input->gen;
  }
  task->uses[i] = (struct dmi_remote_use){.task = task, .value = value};
  task->fetches[i] = &value->fetch;
  DL_APPEND(value->uses, &task->uses[i]);
  if (value->maker && value->uses->next) dmi_remote_task_urge(pool, value->maker);
  task->unknown += value->at.state == DMI_REMOTE_PENDING;
  if (value->at.state == DMI_REMOTE_FAILED && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_POISON))
    dmi_remote_task_fail(pool, task, value->at.why);
}

static void take_in(struct dmi_remote_pool *pool, struct dmi_remote_pool_client *client,
                    struct dmi_remote_task *task) {
  task->client = client;
  DL_APPEND2(client->tasks, task, prev_own, next_own);
  client->calls++;
  pool->calls++;
  for (uint32_t i = 0; i < task->call.output_num; i++) {
    struct dmi_remote_output *output = &task->call.outputs[i];
    output->at.why = NULL;
    if (!output->spare) {
      task->outputs[i] = dmi_remote_value_get(pool, client, output->number);
      task->outputs[i]->maker = task;
    }
    task->room += output->at.size < UINT64_MAX / 2 - task->room ? output->at.size : 0;
  }
  for (uint32_t i = 0; i < task->call.input_num; i++)
    attach(pool, task, i);
  if (task->stage != DMI_REMOTE_WAITING) return;
  if (!task->unknown) dmi_remote_task_complete(pool, task);
  for (uint32_t i = 0; i < task->call.input_num && task->unknown; i++)
    dmi_remote_value_ahead(pool, task->uses[i].value);
}

/* The pool leaves: the call goes back as it came. */
static void refuse(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  struct dmi_remote_pool_action *action = dmi_remote_pool_act(pool, DMI_REMOTE_SEND_RETURN);
  action->to = task->call.client.process;
  action->client = task->call.client;
  action->reason = DMI_REMOTE_LEAVES;
  action->call = &task->call;
  for (uint32_t i = 0; i < task->call.output_num; i++)
    task->call.outputs[i].at.why = NULL;
  task->stage = DMI_REMOTE_OVER;
  task->next = pool->old_tasks;
  pool->old_tasks = task;
}

bool dmi_remote_pool_call(struct dmi_remote_pool *pool, const struct dmi_remote_call *call) {
  struct dmi_remote_pool_client *client;
  if (!is_sound(pool, call)) return false;
  dmi_remote_pool_begin(pool);
  client = dmi_remote_pool_client_of(pool, call->client, true);
  if (client) {
    client->received = call->seq;
    if (pool->leaves && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_REFUSE))
      refuse(pool, copy(call));
    else
      take_in(pool, client, copy(call));
  }
  dmi_remote_pool_end(pool);
  return true;
}

/* ---- It is complete, ready, fired ----------------------------------------------------------- */

static void add_spare(struct dmi_remote_task *task) {
  if (task->spare || (task->call.flags & DMI_REMOTE_PINNED)) return;
  task->spare = true;
  task->client->ready++;
  DL_APPEND2(task->client->spare, task, prev_spare, next_spare);
}

static void remove_spare(struct dmi_remote_task *task) {
  if (!task->spare) return;
  task->spare = false;
  task->client->ready--;
  DL_DELETE2(task->client->spare, task, prev_spare, next_spare);
}

void dmi_remote_task_complete(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  if (dmi_remote_task_bytes(pool, task) > pool->config.limit) {
    struct dmi_remote_why *why = dmi_remote_why_large(dmi_remote_task_bytes(pool, task));
    dmi_remote_task_fail(pool, task, why);
    dmi_remote_why_release(why);
    return;
  }
  task->stage = DMI_REMOTE_COMPLETED;
  DL_APPEND(pool->complete, task);
  add_spare(task);
  dmi_remote_pool_act(pool, DMI_REMOTE_COMPLETE)->call = &task->call;
}

void dmi_remote_task_out(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  if (task->stage == DMI_REMOTE_COMPLETED) DL_DELETE(pool->complete, task);
  if (task->stage == DMI_REMOTE_READY) dmi_remote_task_unready(pool, task);
  if (task->stage == DMI_REMOTE_FAILING) DL_DELETE(pool->failing, task);
  if (task->stage == DMI_REMOTE_READY || task->stage == DMI_REMOTE_FETCHING) pool->admitted--;
  remove_spare(task);
}

/* If this process is lost, the client knows that it was with this call. */
static void send_fired(struct dmi_remote_pool *pool, const struct dmi_remote_task *task) {
  struct dmi_remote_pool_action *action = dmi_remote_pool_act(pool, DMI_REMOTE_SEND_FIRED);
  action->to = task->call.client.process;
  action->client = task->call.client;
  action->call = &task->call;
}

void dmi_remote_pool_fire(struct dmi_remote_pool *pool) {
  struct dmi_remote_task *task;
  while (pool->active < pool->config.cores && (task = dmi_remote_pool_first(pool)) != NULL) {
    dmi_remote_task_out(pool, task);
    task->stage = DMI_REMOTE_RUNNING;
    pool->running++;
    pool->fired++;
    dmi_remote_task_active(pool, task, true);
    if (task->call.flags & DMI_REMOTE_SUSPECT) send_fired(pool, task);
    dmi_remote_pool_act(pool, DMI_REMOTE_RUN)->run = &task->run;
  }
}

/* ---- It is done, or has failed -------------------------------------------------------------- */

void dmi_remote_task_over(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  if (task->client) {
    task->client->calls--;
    DL_DELETE2(task->client->tasks, task, prev_own, next_own);
  }
  pool->calls--;
  task->stage = DMI_REMOTE_OVER;
  task->next = pool->old_tasks;
  pool->old_tasks = task;
}

static void free_made(struct dmi_remote_pool *pool, const struct dmi_remote_call *call, uint32_t i,
                      const struct dmi_remote_result *made) {
  struct dmi_remote_pool_action *action = dmi_remote_pool_act(pool, DMI_REMOTE_FREE);
  action->client = call->client;
  action->number = call->outputs[i].number;
  action->result = *made;
}

/* The output is made. */
static void make(struct dmi_remote_pool *pool, struct dmi_remote_task *task, uint32_t i,
                 const struct dmi_remote_result *made) {
  struct dmi_remote_value *value = task->outputs[i];
  if (!value) return;
  value->maker = NULL;
  dmi_remote_value_make(
      pool, value, task->call.gen, made,
      task->run.carry && made->state == DMI_REMOTE_DONE ? task->run.carry[i] : NULL);
  task->call.outputs[i].at = *made;
  if (made->why) dmi_remote_why_hold(made->why);
}

/* Tells the client, and all that wait for the outputs. */
static void finish(struct dmi_remote_pool *pool, struct dmi_remote_task *task,
                   const struct dmi_remote_result *made) {
  struct dmi_remote_result failed = {.state = DMI_REMOTE_FAILED, .why = task->why};
  struct dmi_remote_pool_action *action;
  for (uint32_t i = 0; i < task->call.output_num; i++)
    make(pool, task, i, made ? &made[i] : &failed);
  action = dmi_remote_pool_act(pool, DMI_REMOTE_SEND_DONE);
  action->to = task->call.client.process;
  action->client = task->call.client;
  action->call = &task->call;
  action->why = task->why;
  action->took = task->took;
  dmi_remote_task_over(pool, task);
}

void dmi_remote_task_fail(struct dmi_remote_pool *pool, struct dmi_remote_task *task,
                          struct dmi_remote_why *why) {
  if (task->stage == DMI_REMOTE_FAILING) return;
  dmi_remote_task_out(pool, task);
  task->why = dmi_remote_why_hold(why);
  task->stage = DMI_REMOTE_FAILING;
  DL_APPEND(pool->failing, task);
}

void dmi_remote_pool_fail(struct dmi_remote_pool *pool) {
  struct dmi_remote_task *task;
  while ((task = pool->failing) != NULL) {
    DL_DELETE(pool->failing, task);
    dmi_remote_task_release(pool, task);
    finish(pool, task, NULL);
  }
}

/* A call that ran has ended. */
static void ended(struct dmi_remote_pool *pool, struct dmi_remote_task *task,
                  const struct dmi_remote_result *made) {
  pool->running--;
  if (task->stage == DMI_REMOTE_RUNNING) dmi_remote_task_active(pool, task, false);
  dmi_remote_task_release(pool, task);
  if (task->client) {
    finish(pool, task, made);
    return;
  }
  for (uint32_t i = 0; made && i < task->call.output_num; i++)
    if (!task->call.outputs[i].spare) free_made(pool, &task->call, i, &made[i]);
  dmi_remote_task_over(pool, task);
}

void dmi_remote_pool_done(struct dmi_remote_pool *pool, struct dmi_remote_run *run,
                          const struct dmi_remote_result *made, uint64_t took) {
  struct dmi_remote_task *task = run->task;
  dmi_remote_pool_begin(pool);
  pool->took = pool->took ? (7 * pool->took + took) / 8 : took;
  task->took = took;
  ended(pool, task, made);
  dmi_remote_pool_end(pool);
}

void dmi_remote_pool_failed(struct dmi_remote_pool *pool, struct dmi_remote_run *run,
                            struct dmi_remote_why *why) {
  struct dmi_remote_task *task = run->task;
  dmi_remote_pool_begin(pool);
  task->why = dmi_remote_why_hold(why);
  ended(pool, task, NULL);
  dmi_remote_pool_end(pool);
}
