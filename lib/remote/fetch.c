/*
 * fetch.c - reads of values that are not waited for: inputs of calls, and DMI_data_read with a
 * status.
 *
 * One thread begins them, since the directory may have to be asked for a mapping, which waits; any
 * number are under way at a time.  Whichever thread brings the last bytes of one puts it into a
 * list and wakes this thread, which tells the pool, or completes the status.
 */
#include <stdlib.h>

#include <utlist.h>

#include "base/futex.h"
#include "base/large.h"
#include "remote/remote_int.h"

void dmi_remote_fetch_news(struct dmi_remote *remote) {
  atomic_fetch_add(&remote->news, 1);
  dmi_futex_wake(&remote->news, 1);
}

void dmi_remote_reading_begin(struct dmi_remote *remote, struct dmi_remote_reading *reading) {
  reading->remote = remote;
  reading->next = NULL;
  *remote->readings_end = reading;
  remote->readings_end = &reading->next;
  dmi_remote_fetch_news(remote);
}

/* In any thread. */
static void ended(struct dmi_access_end *end, int32_t error) {
  struct dmi_remote_reading *reading = (struct dmi_remote_reading *)(void *)end;
  struct dmi_remote *remote = reading->remote;
  reading->error = error;
  reading->ended = dmi_remote_clock();
  dmi_lock(&remote->lately, DMI_RANK_LEAF);
  reading->next = remote->read;
  remote->read = reading;
  /* With the lock: the fetcher may be the last to use all this. */
  atomic_fetch_add(&remote->news, 1);
  dmi_unlock(&remote->lately, DMI_RANK_LEAF);
  dmi_futex_wake(&remote->news, 1);
}

/* ---- How fast they come --------------------------------------------------------------------- */

#define MEASURED 65536           /* bytes of an input that tells; a smaller one only waits */
#define PART ((uint64_t)1 << 20) /* bytes behind which the rate is taken */

/* Bytes of this one will come. */
static void rate_begins(struct dmi_remote_reading *reading) {
  struct dmi_remote_rate *rate = &reading->remote->rate;
  if (reading->here || reading->size < MEASURED) return;
  reading->counted = true;
  if (rate->under++) return;
  rate->since = reading->begun;
  rate->came = 0;
}

/* Its bytes have come, or not.  With the lock. */
static void rate_ends(struct dmi_remote_reading *reading) {
  struct dmi_remote_rate *rate = &reading->remote->rate;
  uint64_t now;
  if (!reading->counted) return;
  reading->counted = false;
  rate->under--;
  if (reading->error == DMI_OK) rate->came += (uint64_t)reading->size;
  if ((rate->under && rate->came < PART) || reading->ended <= rate->since || !rate->came) return;
  now = rate->came * 1000 / (reading->ended - rate->since);
  if (!now) now = 1;
  rate->bytes = rate->bytes ? (3 * rate->bytes + now) / 4 : now;
  rate->since = reading->ended;
  rate->came = 0;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* It is under way until turn() takes its end. */
static void list(struct dmi_remote_reading *reading) {
  DL_APPEND2(reading->remote->way, reading, prev_way, next_way);
  reading->listed = true;
}

static void unlist(struct dmi_remote_reading *reading) {
  if (!reading->listed) return;
  DL_DELETE2(reading->remote->way, reading, prev_way, next_way);
  reading->listed = false;
}

static void read_now(struct dmi_remote_reading *reading, int8_t mode) {
  int32_t error;
  list(reading);
  if (dmi_access_fetch(&reading->remote->process->access, reading->addr + reading->offset,
                       reading->size, reading->buf, mode, &reading->end, &error)) {
    reading->here = true;
    ended(&reading->end, error);
  }
}

/* Brings the page of a large input: its frame will be lent, so that nothing is copied. */
static void bring_page(struct dmi_remote_reading *reading) {
  int32_t error;
  reading->lends = true;
  list(reading);
  if (dmi_access_fetch(&reading->remote->process->access, reading->addr, 1, &reading->first,
                       DMI_INVALIDATE_READ, &reading->end, &error)) {
    reading->here = true;
    ended(&reading->end, error);
  }
}

/* The page is here, if it was not moved away meanwhile; then `buf` is NULL still. */
static void lend_page(struct dmi_remote_reading *reading) {
  struct dmi_frame *frame;
  if (!reading->lends || reading->error != DMI_OK) return;
  frame = dmi_access_lend(&reading->remote->process->access, reading->addr);
  if (frame && ((uintptr_t)frame->bytes & 15) == 0 && frame->size >= (uint64_t)reading->size) {
    reading->fetch->holder = frame;
    reading->fetch->buffer = frame->bytes;
  } else {
    dmi_frame_unref(frame);
  }
}

/* An input of a call: where are its bytes to be? */
static void begin_input(struct dmi_remote_reading *reading) {
  if (!reading->again) reading->begun = dmi_remote_clock();
  if (reading->size >= (int64_t)DMI_LARGE_MIN && !reading->again) {
    bring_page(reading);
    rate_begins(reading);
    return;
  }
  reading->lends = false;
  if (!reading->buf) reading->buf = malloc((size_t)reading->size);
  reading->fetch->buffer = reading->buf;
  if (reading->buf) {
    read_now(reading, reading->again ? DMI_GET_READ : DMI_INVALIDATE_READ);
    rate_begins(reading);
  } else {
    ended(&reading->end, DMI_ENOMEM);
  }
}

static void begin(struct dmi_remote_reading *reading) {
  reading->end.done = ended;
  if (reading->fetch) {
    begin_input(reading);
  } else {
    dmi_remote_read_on(reading); /* as far as it goes now */
  }
}

void dmi_remote_reading_go(struct dmi_remote_reading *reading) {
  read_now(reading, DMI_GET_READ);
}

/* Only bytes that are lost can be made again.  If they are there, but cannot be read, as there is
 * no memory, the calls that need them fail. */
static void input_over(struct dmi_remote *remote, struct dmi_remote_reading *reading) {
  char client[DMI_REMOTE_CLIENT_TEXT];
  if (reading->error == DMI_OK && !reading->here)
    dmi_emit(&remote->process->stream, value_fetched,
             .client = dmi_remote_client_text(reading->fetch->client, client),
             .value = reading->fetch->number, .bytes = (uint64_t)reading->size,
             .us = (dmi_remote_clock() - reading->begun) / 1000);
  if (reading->error == DMI_OK || dmi_remote_is_lost(reading->error)) {
    dmi_remote_pool_fetched(remote->pool, reading->fetch, reading->error == DMI_OK);
  } else {
    char sentence[DMI_TEXT_SIZE];
    struct dmi_remote_why *why;
    snprintf(sentence, sizeof(sentence), "an input could not be read: %s",
             dmi_error_text(reading->error));
    why = dmi_remote_why_new(reading->error, NULL, remote->host, sentence);
    dmi_remote_pool_unfetched(remote->pool, reading->fetch, why);
    dmi_remote_why_release(why);
  }
  dmi_remote_carry(remote);
}

/* A read is over.  With the lock.  True: it is begun once more. */
static bool is_over(struct dmi_remote *remote, struct dmi_remote_reading *reading) {
  if (!reading->fetch) return !dmi_remote_read_over(reading);
  rate_ends(reading);
  const bool nowhere = reading->lends && reading->error == DMI_OK && !reading->fetch->holder;
  if (!reading->again &&
      (nowhere || (reading->error == DMI_ENOMEM && (reading->lends || reading->buf)))) {
    reading->again = true; /* there is no memory for the page: then for these bytes only */
    return true;
  }
  input_over(remote, reading);
  free(reading);
  return false;
}

static struct dmi_remote_reading *take_read(struct dmi_remote *remote) {
  struct dmi_remote_reading *read;
  dmi_lock(&remote->lately, DMI_RANK_LEAF);
  read = remote->read;
  remote->read = NULL;
  dmi_unlock(&remote->lately, DMI_RANK_LEAF);
  return read;
}

/* Tells of those that are over, and takes those that are to begin. */
static struct dmi_remote_reading *turn(struct dmi_remote *remote) {
  struct dmi_remote_reading *read = take_read(remote), *begins;
  for (struct dmi_remote_reading *at = read; at; at = at->next) {
    unlist(at);
    lend_page(at);
  }
  dmi_remote_lock(remote);
  while (read) {
    struct dmi_remote_reading *next = read->next;
    if (is_over(remote, read)) dmi_remote_reading_begin(remote, read);
    read = next;
  }
  begins = remote->readings;
  remote->readings = NULL;
  remote->readings_end = &remote->readings;
  dmi_remote_unlock(remote);
  return begins;
}

static void end_all(struct dmi_remote *remote, struct dmi_remote_reading *list) {
  while (list) {
    struct dmi_remote_reading *next = list->next;
    if (list->fetch) {
      if (!list->fetch->holder) list->fetch->buffer = list->buf;
      dmi_remote_pool_fetched(remote->pool, list->fetch, false);
      dmi_remote_carry(remote);
    } else {
      dmi_status_done(dmi_status_of(list->status), DMI_EINACTIVE);
    }
    free(list);
    list = next;
  }
}

void dmi_remote_readings_end(struct dmi_remote *remote) {
  struct dmi_remote_reading *read = take_read(remote), *reading;
  for (reading = read; reading; reading = reading->next)
    unlist(reading);
  end_all(remote, read);
  /* What is under way is not answered any more. */
  while ((reading = remote->way)) {
    unlist(reading);
    reading->next = NULL;
    end_all(remote, reading);
  }
  while ((reading = remote->readings)) {
    remote->readings = NULL;
    remote->readings_end = &remote->readings;
    end_all(remote, reading);
  }
}

void *dmi_remote_fetcher(void *arg) {
  struct dmi_remote *remote = arg;
  dmi_remote_thread_begin(remote, "dmi-fetch");
  while (!atomic_load(&remote->fetch_ends)) {
    uint32_t seen = atomic_load(&remote->news);
    struct dmi_remote_reading *begins = turn(remote);
    if (!begins && seen == atomic_load(&remote->news)) dmi_futex_wait(&remote->news, seen);
    while (begins) {
      struct dmi_remote_reading *next = begins->next;
      begin(begins);
      begins = next;
    }
  }
  return NULL;
}
