/*
 * issue.c - DMI_call: reads its arguments, and gives the call to the client's book.
 *
 * Arguments are packed as servers read them (call.c): the function's name, then for each argument
 * its kind and, if it goes by value, its bytes.  Inputs and outputs are numbered in the order in
 * which they come; one that is both is the next of each.
 */
#include <stdlib.h>

#include "remote/call.h"

#define FEW 16 /* arguments for which no memory is needed */

/* Bytes by value of one call: they are copied, and go with the CALL in one message. */
#define MOST_BY_VALUE (INT64_C(64) << 20)

struct issue {
  struct dmi_remote *remote;
  uint32_t num, room;
  DMI_arg_t *args, few[FEW];
  uint64_t *numbers; /* inputs, then sizes of outputs, then the new numbers */
  uint64_t *sizes, *made;
  bool *takes; /* of each input: it is an output, too */
  uint32_t input_num, output_num;
  struct dmi_pack body;
};

/* ---- Arguments ------------------------------------------------------------------------------ */

static int64_t kind_of(const DMI_arg_t *arg) {
  return (int64_t)(intptr_t)arg->dmi_kind;
}

static bool is_input(const DMI_arg_t *arg) {
  return kind_of(arg) == DMI_REMOTE_IN || kind_of(arg) == DMI_REMOTE_INOUT;
}

static bool is_output(const DMI_arg_t *arg) {
  return kind_of(arg) == DMI_REMOTE_OUT || kind_of(arg) == DMI_REMOTE_INOUT;
}

static DMI_data_t *place_of(const DMI_arg_t *arg) {
  return (DMI_data_t *)(intptr_t)arg->dmi_private[0];
}

static DMI_data_t data_of(const DMI_arg_t *arg) {
  DMI_data_t data;
  if (kind_of(arg) == DMI_REMOTE_INOUT) return *place_of(arg);
  data.dmi_private[0] = arg->dmi_private[0];
  data.dmi_private[1] = arg->dmi_private[1];
  return data;
}

/* Reads the arguments up to the end. */
static void read_args(struct issue *issue, va_list list) {
  issue->args = issue->few;
  issue->room = FEW;
  for (;;) {
    DMI_arg_t arg = va_arg(list, DMI_arg_t);
    if (!kind_of(&arg)) return;
    if (issue->num == issue->room) {
      DMI_arg_t *more = dmi_xalloc(2 * issue->room, sizeof(*more));
      memcpy(more, issue->args, issue->num * sizeof(*more));
      if (issue->args != issue->few) free(issue->args);
      issue->args = more;
      issue->room *= 2;
    }
    issue->args[issue->num++] = arg;
  }
}

/* Why the arguments are none, as far as they tell themselves. */
static int32_t bad_args(const struct issue *issue) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < issue->num; i++) {
    const DMI_arg_t *arg = &issue->args[i];
    const int64_t kind = kind_of(arg), size = arg->dmi_private[1];
    if (kind < DMI_REMOTE_IN || kind > DMI_REMOTE_BY_VALUE)
      return dmi_because(DMI_EINVAL, "an argument is not made by DMI_IN, DMI_OUT and the like");
    if (kind == DMI_REMOTE_IN) continue;
    if (!arg->dmi_private[0] && (kind != DMI_REMOTE_BY_VALUE || size))
      return dmi_because(DMI_EINVAL, kind == DMI_REMOTE_BY_VALUE ? "a pointer to bytes is NULL"
                                                                 : "a pointer to data is NULL");
    if (size < 0) return dmi_because_of(DMI_EINVAL, "the size of an argument is negative", size);
    if (kind == DMI_REMOTE_BY_VALUE && size > MOST_BY_VALUE - bytes)
      return dmi_because(DMI_EINVAL, "more than 64 MiB by value: give them to DMI_data_put");
    if (kind == DMI_REMOTE_BY_VALUE) bytes += size;
    for (uint32_t j = 0; j < i && is_output(arg); j++) {
      if (is_output(&issue->args[j]) && place_of(&issue->args[j]) == place_of(arg))
        return dmi_because(DMI_EINVAL, "the same data is to be given two new values");
    }
  }
  return DMI_OK;
}

static void pack_args(struct issue *issue, const char *name) {
  dmi_pack_init(&issue->body);
  dmi_pack_bytes(&issue->body, name, strlen(name));
  dmi_pack_u32(&issue->body, issue->num);
  for (uint32_t i = 0; i < issue->num; i++) {
    const DMI_arg_t *arg = &issue->args[i];
    dmi_pack_u8(&issue->body, (uint8_t)kind_of(arg));
    if (kind_of(arg) == DMI_REMOTE_BY_VALUE)
      dmi_pack_bytes(&issue->body, (const void *)(intptr_t)arg->dmi_private[0],
                     (size_t)arg->dmi_private[1]);
    issue->input_num += is_input(arg);
    issue->output_num += is_output(arg);
  }
  issue->numbers = dmi_xalloc(2 * issue->input_num + 2 * issue->output_num + 1, sizeof(uint64_t));
  issue->sizes = issue->numbers + issue->input_num;
  issue->made = issue->sizes + issue->output_num;
  issue->takes = (bool *)(issue->made + issue->output_num);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* Finds the numbers of inputs and the sizes of outputs.  With the lock. */
static int32_t find_values(struct issue *issue, struct dmi_remote_user *user) {
  uint32_t input = 0, output = 0;
  for (uint32_t i = 0; i < issue->num; i++) {
    const DMI_arg_t *arg = &issue->args[i];
    struct dmi_remote_result result;
    uint64_t number;
    if (is_input(arg)) {
      int32_t error = dmi_remote_check(issue->remote, user, data_of(arg), &number);
      if (error != DMI_OK) return error;
      issue->takes[input] = is_output(arg);
      issue->numbers[input++] = number;
    }
    if (!is_output(arg)) continue;
    issue->sizes[output] = (uint64_t)arg->dmi_private[1];
    if (is_input(arg)) {
      if (!dmi_remote_book_look(user->book, number, false, &result))
        return dmi_because(DMI_EINVAL, "one of the values was dropped");
      issue->sizes[output] = result.state == DMI_REMOTE_FAILED ? 0 : result.size;
    }
    output++;
  }
  return DMI_OK;
}

/* The data get the names of the new values. */
static void name_outputs(struct issue *issue, struct dmi_remote_user *user) {
  uint32_t output = 0;
  for (uint32_t i = 0; i < issue->num; i++) {
    const DMI_arg_t *arg = &issue->args[i];
    if (!is_output(arg)) continue;
    *place_of(arg) = dmi_remote_name(user, issue->made[output++]);
  }
}

static int32_t find_server(const struct dmi_remote *remote, int32_t dmi_id, dmi_uid_t *uid) {
  *uid = 0;
  if (dmi_id < 0) return DMI_OK;
  for (const struct dmi_remote_served *at = remote->servers; at; at = at->hh.next) {
    if (at->dmi_id.n == (uint32_t)dmi_id) *uid = at->uid;
  }
  return *uid ? DMI_OK : DMI_EMEMBER;
}

/* Waits while the client has as many calls as it may.  It is not freed meanwhile. */
static int32_t await_room(struct dmi_remote *remote, struct dmi_remote_user *user) {
  int32_t error = DMI_OK;
  user->inside++;
  while (!user->closing && error == DMI_OK && dmi_remote_book_full(user->book))
    error = dmi_remote_wait(remote, user, 0);
  user->inside--;
  if (user->closing) dmi_remote_wake(user, 0);
  return error;
}

/* With the lock. */
static int32_t give(struct issue *issue, const DMI_client_t *client, int32_t dmi_id,
                    const char *name, uint32_t kind) {
  struct dmi_remote *remote = issue->remote;
  struct dmi_remote_issue call = {.kind = kind,
                                  .name = name,
                                  .args = issue->body.bytes,
                                  .arg_size = issue->body.len,
                                  .inputs = issue->numbers,
                                  .takes = issue->takes, /* the old name is dropped */
                                  .sizes = issue->sizes,
                                  .input_num = issue->input_num,
                                  .output_num = issue->output_num};
  struct dmi_remote_user *user = dmi_remote_user(remote, client);
  int32_t error = DMI_OK;
  if (user) error = await_room(remote, user);
  if (!user || user->closing) return dmi_because(DMI_EINVAL, "the client is not open");
  if (error == DMI_OK && remote->stopping) error = DMI_EEND;
  if (error == DMI_OK) error = find_server(remote, dmi_id, &call.on);
  if (error == DMI_OK) error = find_values(issue, user);
  if (error != DMI_OK) return error;
  call.late = user->late;
  error = dmi_remote_book_call(user->book, &call, issue->made);
  dmi_remote_carry_book(remote, user);
  if (error != DMI_OK) return dmi_because(error, "one of the values was dropped");
  name_outputs(issue, user);
  return DMI_OK;
}

int32_t dmi_remote_issue(struct dmi_process *process, DMI_client_t *client, int32_t dmi_id,
                         DMI_remote_function_t function, va_list args) {
  struct issue issue = {.remote = process->remote};
  uint32_t kind = 0; /* one for each function */
  const char *name = function ? dmi_remote_function_name(function, &kind) : NULL;
  int32_t error = issue.remote ? DMI_OK : DMI_EINACTIVE;
  if (error == DMI_OK && !name)
    error = dmi_because(DMI_ENOFUNC, "this function was not defined by DMI_REMOTE");
  if (error != DMI_OK) return dmi_fail(error);
  read_args(&issue, args);
  error = bad_args(&issue);
  if (error == DMI_OK) {
    pack_args(&issue, name);
    dmi_remote_lock(issue.remote);
    error = give(&issue, client, dmi_id, name, kind);
    dmi_remote_unlock_later(issue.remote);
    dmi_pack_free(&issue.body);
    free(issue.numbers);
  }
  if (issue.args != issue.few) free(issue.args);
  return dmi_result(error);
}
