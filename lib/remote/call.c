/*
 * call.c - a call that runs: its arguments, the function, what it has made.
 *
 * Inputs that were fetched lie in local memory already; those that were made here are copied from
 * their pages now.  Outputs are local memory, too, until the function has returned; then they are
 * written into pages of this process.  Large ones are not copied: see LENT.
 *
 * A function that asks for an argument which the call does not have is left by longjmp, so what it
 * had allocated is lost; the process, and other calls, are not.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "node/runtime.h"
#include "remote/call.h"

/* ---- Arguments ------------------------------------------------------------------------------ */

/* Where the bytes of a value begin: good for any type. */
#define ALIGNED(size) (((size) + 15) & ~(uint64_t)15)

/* The arguments as the client has packed them (issue.c).  False: not by a client. */
static bool unpack_args(DMI_remote_t *call, struct dmi_unpack *body) {
  uint32_t inputs = 0, outputs = 0;
  uint64_t bytes = 0;
  call->num = dmi_unpack_count(body, 1);
  if (call->num) call->args = dmi_xalloc(call->num, sizeof(*call->args));
  for (uint32_t i = 0; i < call->num; i++) {
    struct dmi_remote_arg *arg = &call->args[i];
    size_t len;
    arg->kind = dmi_unpack_u8(body);
    if (arg->kind == DMI_REMOTE_BY_VALUE) {
      arg->bytes = (void *)(uintptr_t)dmi_unpack_bytes(body, &len);
      arg->size = (int64_t)len;
      bytes += ALIGNED(len) + (len == 0);
    }
    if (arg->kind == DMI_REMOTE_IN || arg->kind == DMI_REMOTE_INOUT) arg->input = inputs++;
    if (arg->kind == DMI_REMOTE_OUT || arg->kind == DMI_REMOTE_INOUT) arg->output = outputs++;
    if (arg->kind < DMI_REMOTE_IN || arg->kind > DMI_REMOTE_BY_VALUE) return false;
  }
  call->values = bytes ? aligned_alloc(16, ALIGNED(bytes)) : NULL;
  if (bytes && !call->values) return false;
  return dmi_unpack_done(body) && inputs == call->run->call->input_num &&
         outputs == call->run->call->output_num;
}

/* Copies values to where their addresses are good for any type. */
static void place_values(DMI_remote_t *call) {
  char *at = call->values;
  for (uint32_t i = 0; i < call->num; i++) {
    struct dmi_remote_arg *arg = &call->args[i];
    if (arg->kind != DMI_REMOTE_BY_VALUE) continue;
    if (arg->size) memcpy(at, arg->bytes, (size_t)arg->size);
    arg->bytes = at;
    at += ALIGNED((uint64_t)arg->size);
  }
}

/* Values of so many bytes are not copied if that can be avoided (access_lend.c): the function gets
 * the frame of the page in which an input is, or a frame that becomes that of an output's page. */
#define LENT DMI_LARGE_MIN

/* Good for any type? */
static bool is_aligned(const struct dmi_frame *frame) {
  return ((uintptr_t)frame->bytes & 15) == 0;
}

/* A frame for `size` bytes that may become a page, or ordinary memory if there are few of them.
 * With `zero` they are zero.  False: no memory. */
static bool new_bytes(DMI_remote_t *call, struct dmi_remote_arg *arg, bool zero) {
  const uint64_t size = (uint64_t)arg->size;
  if (size >= LENT) {
    const uint64_t page = dmi_remote_page_size(size);
    arg->frame = zero ? dmi_frame_new_zero(page) : dmi_frame_new(page);
    if (arg->frame && !is_aligned(arg->frame)) {
      dmi_frame_unref(arg->frame);
      arg->frame = NULL;
    }
  }
  arg->own = !arg->frame;
  if (arg->frame) {
    arg->bytes = arg->frame->bytes;
  } else {
    arg->bytes = zero ? calloc(1, size ? size : 1) : malloc(size ? size : 1);
  }
  if (!arg->bytes) call->error = DMI_ENOMEM;
  return arg->bytes != NULL;
}

/* The argument is in this frame, with its reference.  False: it is none that can be used. */
static bool use_frame(struct dmi_remote_arg *arg, struct dmi_frame *frame) {
  if (!frame) return false;
  if (!is_aligned(frame)) {
    dmi_frame_unref(frame);
    return false;
  }
  arg->frame = frame;
  arg->bytes = frame->bytes;
  return true;
}

/* The same with a frame that was taken: its bytes are nowhere else.  False: the call has failed. */
static bool use_taken(DMI_remote_t *call, struct dmi_remote_arg *arg, struct dmi_frame *frame) {
  if (is_aligned(frame)) return use_frame(arg, frame);
  if (new_bytes(call, arg, false)) memcpy(arg->bytes, frame->bytes, (size_t)arg->size);
  dmi_frame_unref(frame);
  return arg->bytes != NULL;
}

/* Makes the argument a copy of the input.  False: the call has failed. */
static bool copy_input(DMI_remote_t *call, struct dmi_remote_arg *arg) {
  const struct dmi_remote_fetch *fetch = call->run->inputs[arg->input];
  if (!new_bytes(call, arg, false)) return false;
  if (!fetch->size) return true;
  if (fetch->buffer) {
    memcpy(arg->bytes, fetch->buffer, fetch->size);
    return true;
  }
  if (dmi_access_read(&call->remote->process->access, fetch->addr, (int64_t)fetch->size, arg->bytes,
                      DMI_INVALIDATE_READ, NULL))
    return true;
  call->error = dmi_error_last();
  call->unread = dmi_remote_is_lost(call->error);
  call->unread_at = arg->input;
  return false;
}

static bool make_in(DMI_remote_t *call, struct dmi_remote_arg *arg) {
  const struct dmi_remote_fetch *fetch = call->run->inputs[arg->input];
  arg->size = (int64_t)fetch->size;
  arg->bytes = fetch->buffer;
  if (arg->bytes) return true;
  if (fetch->size >= LENT &&
      use_frame(arg, dmi_access_lend(&call->remote->process->access, fetch->addr)))
    return true;
  return copy_input(call, arg);
}

/* The function changes it: if it is the last one that needs the input, in its own memory. */
static bool make_inout(DMI_remote_t *call, struct dmi_remote_arg *arg) {
  const struct dmi_remote_fetch *fetch = call->run->inputs[arg->input];
  const bool last = call->run->call->inputs[arg->input].last;
  arg->size = (int64_t)fetch->size;
  /* What may go with a HAVE has to stay when the input is released. */
  if (last && fetch->buffer && !fetch->holder && arg->size > DMI_REMOTE_CARRY_MOST) {
    arg->bytes = fetch->buffer;
    return true;
  }
  if (last && fetch->here && fetch->size >= LENT) {
    struct dmi_frame *frame = dmi_access_take(&call->remote->process->access, fetch->addr);
    if (frame) return use_taken(call, arg, frame);
  }
  return copy_input(call, arg);
}

/* Makes the bytes of all arguments; inputs that others need before those that are changed, as these
 * may not be put back.  False: call->error says why not. */
static bool make_args(DMI_remote_t *call) {
  for (uint32_t i = 0; i < call->num; i++) {
    struct dmi_remote_arg *arg = &call->args[i];
    if (arg->kind == DMI_REMOTE_IN && !make_in(call, arg)) return false;
    if (arg->kind != DMI_REMOTE_OUT) continue;
    arg->size = (int64_t)call->run->call->outputs[arg->output].at.size;
    if (!new_bytes(call, arg, true)) return false;
  }
  for (uint32_t i = 0; i < call->num; i++) {
    if (call->args[i].kind == DMI_REMOTE_INOUT && !make_inout(call, &call->args[i])) return false;
  }
  return true;
}

/* Of arguments, with `small` of those only whose bytes may go with a HAVE. */
static void free_bytes(DMI_remote_t *call, bool small) {
  for (uint32_t i = 0; i < call->num; i++) {
    struct dmi_remote_arg *arg = &call->args[i];
    if (arg->carried && !small) continue;
    dmi_frame_unref(arg->frame);
    if (arg->own) free(arg->bytes);
    arg->frame = NULL;
    arg->own = false;
  }
}

void dmi_remote_run_end(DMI_remote_t *call) {
  free_bytes(call, true);
  free(call->args);
  free(call->values);
  free(call->carry);
}

/* ---- What the function asks ----------------------------------------------------------------- */

static const char *const kinds[] = {
    [DMI_REMOTE_IN] = "input",
    [DMI_REMOTE_OUT] = "output",
    [DMI_REMOTE_INOUT] = "input and output at once",
    [DMI_REMOTE_BY_VALUE] = "value",
};

void dmi_remote_fails(DMI_remote_t *call, const char *sentence) {
  if (call->failed) return;
  call->failed = true;
  call->error = DMI_EREMOTE;
  snprintf(call->sentence, sizeof(call->sentence), "%s", sentence ? sentence : "");
}

static void leave(DMI_remote_t *call, const char *sentence) {
  dmi_remote_fails(call, sentence);
  longjmp(call->end, 1);
}

int32_t dmi_remote_arg_num(const DMI_remote_t *call) {
  return (int32_t)call->num;
}

void *dmi_remote_arg(DMI_remote_t *call, int32_t index, enum dmi_remote_kind kind, int64_t *size) {
  const struct dmi_remote_arg *arg;
  char sentence[160];
  if (index < 0 || (uint32_t)index >= call->num) {
    snprintf(sentence, sizeof(sentence),
             "the function asks for argument %d, counted from 0, but the call has %u", index,
             call->num);
    leave(call, sentence);
  }
  arg = &call->args[index];
  if (arg->kind != kind) {
    snprintf(sentence, sizeof(sentence), "argument %d, counted from 0, is %s %s, not %s %s", index,
             arg->kind == DMI_REMOTE_BY_VALUE ? "a" : "an", kinds[arg->kind],
             kind == DMI_REMOTE_BY_VALUE ? "a" : "an", kinds[kind]);
    leave(call, sentence);
  }
  if (size) *size = arg->size;
  return arg->bytes;
}

const void *dmi_remote_arg_of(DMI_remote_t *call, int32_t index, int64_t size) {
  int64_t is;
  const void *bytes = dmi_remote_arg(call, index, DMI_REMOTE_BY_VALUE, &is);
  char sentence[160];
  if (is == size) return bytes;
  snprintf(sentence, sizeof(sentence),
           "argument %d, counted from 0, is a value of %lld bytes, not of %lld", index,
           (long long)is, (long long)size);
  leave(call, sentence);
  return NULL;
}

/* ---- The run -------------------------------------------------------------------------------- */

/* Into its page, which nobody needs meanwhile.  A page that was used before may have copies
 * elsewhere: the first write takes them away. */
static bool write_output(DMI_remote_t *call, struct dmi_remote_arg *arg, int64_t addr) {
  struct dmi_access *access = &call->remote->process->access;
  if (arg->frame) {
    bool given = dmi_access_give(access, addr, arg->frame) ||
                 (dmi_access_write(access, addr, 1, arg->bytes, DMI_EXCLUSIVE_WRITE, NULL) &&
                  dmi_access_give(access, addr, arg->frame));
    if (given) arg->frame = NULL;
    if (given) return true;
  }
  if (dmi_access_write(access, addr, arg->size, arg->bytes, DMI_EXCLUSIVE_WRITE, NULL)) return true;
  call->error = dmi_error_last();
  return false;
}

/* Writes the outputs into pages.  False: nothing was made, and call->error says why. */
static bool write_outputs(DMI_remote_t *call, struct dmi_remote_result *made) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < call->num && call->error == DMI_OK; i++) {
    struct dmi_remote_arg *arg = &call->args[i];
    struct dmi_remote_result *to = &made[arg->output];
    if (arg->kind != DMI_REMOTE_OUT && arg->kind != DMI_REMOTE_INOUT) continue;
    to->state = DMI_REMOTE_DONE;
    to->size = (uint64_t)arg->size;
    if (call->run->call->outputs[arg->output].spare) { /* it is there already */
      to->size = 0;
      done++;
      continue;
    }
    call->error = dmi_remote_page_make(call->store, to->size, &to->addr);
    if (call->error != DMI_OK) break;
    done++;
    if (to->size) (void)write_output(call, arg, to->addr);
  }
  if (call->error == DMI_OK) return true;
  for (uint32_t i = 0; i < done; i++) /* outputs are in the order of arguments */
    dmi_remote_page_free(call->store, made[i].addr, made[i].size, false);
  return false;
}

/* Which outputs may go with a HAVE: those that are small, of a call that is done. */
static void carry_outputs(DMI_remote_t *call) {
  const uint32_t outputs = call->run->call->output_num;
  if (outputs) call->carry = dmi_xalloc(outputs, sizeof(*call->carry));
  for (uint32_t i = 0; i < call->num; i++) {
    struct dmi_remote_arg *arg = &call->args[i];
    if (arg->kind != DMI_REMOTE_OUT && arg->kind != DMI_REMOTE_INOUT) continue;
    arg->carried = arg->size <= DMI_REMOTE_CARRY_MOST;
    if (arg->carried) call->carry[arg->output] = arg->bytes;
  }
  call->run->carry = call->carry;
}

static struct dmi_remote_why *why(const DMI_remote_t *call) {
  const char *sentence = call->sentence;
  char own[160];
  if (!call->failed) {
    snprintf(own, sizeof(own), "its inputs or outputs: %s", dmi_error_text(call->error));
    sentence = own;
  }
  return dmi_remote_why_new(call->error, call->name, call->remote->host, sentence);
}

/* In a function of its own: nothing that longjmp may change is used behind setjmp. */
static void run_function(DMI_remote_t *call, DMI_remote_function_t function) {
  if (setjmp(call->end) == 0) function(call);
}

struct dmi_remote_why *dmi_remote_run(DMI_remote_t *call, struct dmi_remote_result *made) {
  const struct dmi_remote_call *of = call->run->call;
  const struct dmi_slice args = {NULL, of->args, of->arg_size};
  struct dmi_remote_why *result = NULL;
  struct dmi_unpack body;
  DMI_remote_function_t function;
  size_t len = 0;
  const uint8_t *name;
  dmi_unpack_init(&body, &args);
  name = dmi_unpack_bytes(&body, &len);
  function = name ? dmi_remote_function_find((const char *)name, len) : NULL;
  if (!unpack_args(call, &body)) {
    dmi_remote_fails(call, "its arguments are not those of a call");
  } else if (!function) {
    dmi_remote_fails(call, "this process has no remote function of that name");
  } else {
    place_values(call);
    if (make_args(call)) run_function(call, function);
    dmi_remote_close_left(call->remote, call);
    if (call->error == DMI_OK && write_outputs(call, made)) carry_outputs(call);
  }
  if (call->error != DMI_OK) result = why(call);
  free_bytes(call, false);
  return result;
}
