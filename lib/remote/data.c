/*
 * data.c - values, as the program sees them: put, read, copied, dropped.
 *
 * A value that is read has a second name meanwhile, so that it stays.  When it is found lost its
 * client is told, which has it computed again, and it is waited for once more.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "remote/call.h"

static const DMI_data_t none;

static int32_t not_open(void) {
  return dmi_because(DMI_EINVAL, "the client is not open");
}

/* Whose client has given it. */
static int32_t strange(struct dmi_remote *remote, uint64_t of) {
  if (of >> 32 != remote->self.uid)
    return dmi_because(DMI_EINVAL, "the data is of a client of another process");
  return dmi_because(DMI_EINVAL, dmi_remote_user(remote, (void *)(uintptr_t)(uint32_t)of)
                                     ? "the data is of another client"
                                     : "the data is of a client that is not open");
}

int32_t dmi_remote_check(struct dmi_remote *remote, const struct dmi_remote_user *user,
                         DMI_data_t data, uint64_t *number) {
  const int64_t of = (int64_t)((uint64_t)user->id.process << 32 | user->id.n);
  *number = (uint64_t)data.dmi_private[1];
  if (!data.dmi_private[0] && !data.dmi_private[1])
    return dmi_because(DMI_EINVAL, "the data has no value: it was never given one");
  return data.dmi_private[0] == of ? DMI_OK : strange(remote, (uint64_t)data.dmi_private[0]);
}

DMI_data_t dmi_remote_name(const struct dmi_remote_user *user, uint64_t number) {
  DMI_data_t data;
  data.dmi_private[0] = (int64_t)((uint64_t)user->id.process << 32 | user->id.n);
  data.dmi_private[1] = (int64_t)number;
  return data;
}

static int32_t dropped(void) {
  return dmi_because(DMI_EINVAL, "the data was dropped");
}

/* The client of a call, and the number of its value.  NULL: *error says why not.  With the lock. */
static struct dmi_remote_user *find(struct dmi_remote *remote, const DMI_client_t *client,
                                    DMI_data_t data, uint64_t *number, int32_t *error) {
  struct dmi_remote_user *user = dmi_remote_user(remote, client);
  *error = user && !user->closing ? dmi_remote_check(remote, user, data, number) : not_open();
  return *error == DMI_OK ? user : NULL;
}

/* ---- Put, copy, drop ------------------------------------------------------------------------ */

/* Writes the bytes into a page.  Without the lock. */
static int32_t write_value(struct dmi_process *process, struct dmi_remote_store *store,
                           const void *buf, int64_t size, int64_t *addr) {
  int32_t error = dmi_remote_page_make(store, (uint64_t)size, addr);
  if (error != DMI_OK || !size) return error;
  if (dmi_access_write(&process->access, *addr, size, buf, DMI_EXCLUSIVE_WRITE, NULL))
    return DMI_OK;
  error = dmi_error_last();
  dmi_remote_page_free(store, *addr, (uint64_t)size, false);
  return error;
}

DMI_data_t dmi_remote_put(struct dmi_process *process, DMI_client_t *client, const void *buf,
                          int64_t size) {
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_store *store;
  struct dmi_remote_user *user;
  dmi_remote_client_t id;
  DMI_data_t data = none;
  int32_t error;
  int64_t addr;
  if (size < 0) (void)dmi_fail(dmi_because_of(DMI_EINVAL, "the size is negative", size));
  if (size > 0 && !buf) (void)dmi_fail(dmi_because(DMI_EINVAL, "the buffer is NULL"));
  if (size < 0 || (size && !buf) || !remote) return none;
  dmi_remote_lock(remote);
  user = dmi_remote_user(remote, client);
  if (!user || user->closing) {
    dmi_remote_unlock(remote);
    (void)dmi_fail(not_open());
    return none;
  }
  id = user->id;
  user->inside++;
  store = dmi_remote_store_take(remote, id);
  dmi_remote_unlock_later(remote);
  error = store ? write_value(process, store, buf, size, &addr) : not_open();
  dmi_remote_lock(remote);
  if (error == DMI_OK)
    data = dmi_remote_name(user, dmi_remote_book_put(user->book, addr, (uint64_t)size));
  dmi_remote_carry_book(remote, user);
  if (store) dmi_remote_store_give(remote, id);
  user->inside--;
  if (user->closing) dmi_remote_wake(user, 0);
  dmi_remote_unlock_later(remote);
  if (error != DMI_OK) (void)dmi_fail(error);
  return data;
}

DMI_data_t dmi_remote_copy(struct dmi_process *process, DMI_client_t *client, DMI_data_t data) {
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_user *user;
  uint64_t number;
  int32_t error;
  if (!remote) return none;
  dmi_remote_lock(remote);
  user = find(remote, client, data, &number, &error);
  if (user && !dmi_remote_book_hold(user->book, number)) error = dropped();
  dmi_remote_unlock_later(remote);
  if (error == DMI_OK) return data;
  (void)dmi_fail(error);
  return none;
}

int32_t dmi_remote_drop(struct dmi_process *process, DMI_client_t *client, DMI_data_t data) {
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_user *user;
  uint64_t number;
  int32_t error;
  if (!remote) return dmi_fail(DMI_EINACTIVE);
  dmi_remote_lock(remote);
  user = find(remote, client, data, &number, &error);
  if (user && !dmi_remote_book_drop(user->book, number)) error = dropped();
  if (user) dmi_remote_carry_book(remote, user);
  dmi_remote_unlock_later(remote);
  return dmi_result(error);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Waits until the value is there or failed.  With the lock. */
static int32_t await(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number,
                     struct dmi_remote_result *result) {
  for (;;) {
    int32_t error;
    if (!dmi_remote_book_look(user->book, number, true, result)) return dropped();
    dmi_remote_carry_book(remote, user);
    if (result->state != DMI_REMOTE_PENDING) return DMI_OK;
    error = dmi_remote_wait(remote, user, number);
    if (error != DMI_OK) return error;
  }
}

/* Why the range cannot be read; its size is known from the beginning. */
static int32_t bad_range(struct dmi_remote_user *user, uint64_t number, int64_t offset,
                         int64_t size) {
  struct dmi_remote_result result;
  uint64_t from = (uint64_t)offset, num = (uint64_t)size;
  if (!dmi_remote_book_look(user->book, number, false, &result)) return dropped();
  if (result.state == DMI_REMOTE_FAILED) return DMI_OK; /* that is told */
  if (from > result.size || num > result.size - from)
    return dmi_because_so(DMI_ERANGE, "bytes %" PRIu64 " to %" PRIu64 " of a value of %" PRIu64,
                          from, from + num, (uint64_t)result.size);
  return DMI_OK;
}

#define FAILURE "%s: %.60s" /* a function, and why it has failed */

/* Waits for the value, and reads it, until that is not in vain.  With the lock, which is released
 * meanwhile; the value has a name more. */
static int32_t read_held(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number,
                         void *buf, int64_t offset, int64_t size) {
  for (;;) {
    struct dmi_remote_result result;
    int32_t error = await(remote, user, number, &result);
    if (error != DMI_OK) return error;
    user->told = user->told || result.state == DMI_REMOTE_FAILED;
    if (result.state == DMI_REMOTE_FAILED)
      return dmi_because_so(result.why->error, FAILURE, result.why->function, result.why->sentence);
    if (!size) return DMI_OK;
    dmi_remote_unlock(remote);
    if (!dmi_access_read(&remote->process->access, result.addr + offset, size, buf, DMI_GET_READ,
                         NULL))
      error = dmi_error_last();
    dmi_remote_lock(remote);
    if (!dmi_remote_is_lost(error)) return error;
    dmi_remote_book_unreadable(user->book, number, result.addr);
    dmi_remote_carry_book(remote, user);
  }
}

static int32_t bad_read(const void *buf, int64_t offset, int64_t size) {
  if (size < 0) return dmi_because_of(DMI_EINVAL, "the size is negative", size);
  if (offset < 0) return dmi_because_of(DMI_EINVAL, "the offset is negative", offset);
  if (size && !buf) return dmi_because(DMI_EINVAL, "the buffer is NULL");
  return DMI_OK;
}

/* It is not read any more. */
static void let_go(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number) {
  (void)dmi_remote_book_drop(user->book, number);
  dmi_remote_carry_book(remote, user);
  user->inside--;
  if (user->closing) dmi_remote_wake(user, 0);
}

/* Has another thread read it. */
static void read_later(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number,
                       const struct dmi_remote_reading *what) {
  struct dmi_remote_reading *reading = dmi_xalloc(1, sizeof(*reading));
  *reading = *what;
  reading->user = user;
  reading->number = number;
  dmi_status_begin(dmi_status_of(what->status));
  dmi_remote_reading_begin(remote, reading);
}

int32_t dmi_remote_read(struct dmi_process *process, DMI_client_t *client, DMI_data_t data,
                        void *buf, int64_t offset, int64_t size, DMI_local_status_t *status) {
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_user *user;
  uint64_t number;
  int32_t error = remote ? bad_read(buf, offset, size) : DMI_EINACTIVE;
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  dmi_remote_lock(remote);
  user = find(remote, client, data, &number, &error);
  if (user) error = bad_range(user, number, offset, size);
  if (error == DMI_OK && !dmi_remote_book_hold(user->book, number)) error = dropped();
  if (error == DMI_OK) {
    user->inside++;
    if (status && !dmi_remote_mine()) {
      read_later(remote, user, number,
                 &(struct dmi_remote_reading){
                     .buf = buf, .offset = offset, .size = size, .status = status});
      dmi_remote_unlock_later(remote);
      return DMI_TRUE;
    }
    error = read_held(remote, user, number, buf, offset, size);
    let_go(remote, user, number);
  }
  dmi_remote_unlock(remote);
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  return status ? dmi_status_succeed(status) : DMI_TRUE;
}

/* ---- Reading with a status, by the fetcher -------------------------------------------------- */

/* With the lock. */
static void complete(struct dmi_remote_reading *reading, int32_t error) {
  let_go(reading->remote, reading->user, reading->number);
  dmi_status_done(dmi_status_of(reading->status), error);
  free(reading);
}

void dmi_remote_read_on(struct dmi_remote_reading *reading) {
  struct dmi_remote *remote = reading->remote;
  struct dmi_remote_result result;
  int32_t error = DMI_OK;
  dmi_remote_lock(remote);
  if (!dmi_remote_book_look(reading->user->book, reading->number, true, &result))
    error = DMI_EINVAL;
  dmi_remote_carry_book(remote, reading->user);
  if (remote->stopping) error = DMI_EEND;
  if (error == DMI_OK && result.state == DMI_REMOTE_PENDING) {
    reading->next = reading->user->readings; /* WAKE begins it again */
    reading->user->readings = reading;
    dmi_remote_unlock(remote);
    return;
  }
  if (error == DMI_OK && result.state == DMI_REMOTE_FAILED) {
    char phrase[DMI_REMOTE_NAME_TEXT + 64];
    reading->user->told = true;
    snprintf(phrase, sizeof(phrase), FAILURE, result.why->function, result.why->sentence);
    error = dmi_because_kept(result.why->error, phrase);
  }
  if (error != DMI_OK || !reading->size) {
    complete(reading, error);
    dmi_remote_unlock(remote);
    return;
  }
  reading->addr = result.addr;
  dmi_remote_unlock(remote);
  dmi_remote_reading_go(reading);
}

bool dmi_remote_read_over(struct dmi_remote_reading *reading) {
  if (dmi_remote_is_lost(reading->error)) {
    dmi_remote_book_unreadable(reading->user->book, reading->number, reading->addr);
    dmi_remote_carry_book(reading->remote, reading->user);
    return false;
  }
  complete(reading, reading->error);
  return true;
}

void dmi_remote_readings_wake(struct dmi_remote *remote, struct dmi_remote_user *user,
                              uint64_t number) {
  struct dmi_remote_reading **at = &user->readings;
  while (*at) {
    struct dmi_remote_reading *reading = *at;
    if (number && reading->number != number) {
      at = &reading->next;
      continue;
    }
    *at = reading->next;
    dmi_remote_reading_begin(remote, reading);
  }
}

/* ---- Failures ------------------------------------------------------------------------------- */

static void tell(const struct dmi_remote_why *why, DMI_failure_t *failure) {
  snprintf(failure->hostname, sizeof(failure->hostname), "%s", why->host);
  snprintf(failure->function, sizeof(failure->function), "%s", why->function);
  snprintf(failure->sentence, sizeof(failure->sentence), "%s", why->sentence);
}

int32_t dmi_remote_failure(struct dmi_process *process, DMI_client_t *client, DMI_data_t data,
                           DMI_failure_t *failure) {
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_result result;
  struct dmi_remote_user *user;
  uint64_t number;
  int32_t error;
  if (!failure) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  if (!remote) return dmi_fail(DMI_EINACTIVE);
  dmi_remote_lock(remote);
  user = find(remote, client, data, &number, &error);
  if (user && !dmi_remote_book_hold(user->book, number)) error = dropped();
  if (error == DMI_OK) {
    user->inside++;
    error = await(remote, user, number, &result);
    if (error == DMI_OK && result.state == DMI_REMOTE_FAILED) {
      user->told = true;
      tell(result.why, failure);
    }
    if (error == DMI_OK && result.state != DMI_REMOTE_FAILED)
      error = dmi_because(DMI_EADDR, "the call has not failed");
    let_go(remote, user, number);
  }
  dmi_remote_unlock(remote);
  return dmi_result(error);
}
