/*
 * client.c - clients of this process: opened, closed, waited for.
 *
 * A DMI_client_t is only a number, so that the use of one that was closed is noticed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/futex.h"
#include "core/member.h"
#include "node/calls.h"
#include "node/runtime.h"
#include "remote/call.h"

#define CALL_BYTES ((uint64_t)64 << 20)
#define SAID_AFTER 5 /* seconds that DMI_client_open waits before it says so */
#define LINEAGE_BYTES ((uint64_t)256 << 20)

struct dmi_remote_user *dmi_remote_user(struct dmi_remote *remote, const DMI_client_t *client) {
  struct dmi_remote_user *user = remote->users;
  while (user && user->id.n != (uintptr_t)client)
    user = user->next;
  return user;
}

struct dmi_remote_user *dmi_remote_user_of(struct dmi_remote *remote, dmi_remote_client_t id) {
  struct dmi_remote_user *user = remote->users;
  while (user && !dmi_remote_client_is(user->id, id))
    user = user->next;
  return user;
}

bool dmi_remote_has_client(const struct dmi_remote *remote) {
  for (const struct dmi_remote_user *user = remote->users; user; user = user->next) {
    if (!user->in) return true;
  }
  return false;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* `always`: also when the program is ending. */
static int32_t wait(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number,
                    bool always) {
  struct dmi_remote_waiter waiter = {.number = number}, **at;
  int32_t error = DMI_OK;
  const bool noted =
      dmi_doing_waits(&remote->process->access.doings, DMI_DOING_VALUE, 0, 0, number);
  pthread_cond_init(&waiter.cond, NULL);
  waiter.next = user->waiters;
  user->waiters = &waiter;
  dmi_remote_waits(remote);
  while (!waiter.woken && error == DMI_OK) {
    if (remote->stopping && !always) error = DMI_EEND;
    if (remote->ended && !always) error = DMI_EINACTIVE;
    if (error != DMI_OK) break;
    if (remote->lines_used) { /* what is waited for may have to be sent first */
      dmi_remote_unlock(remote);
      dmi_remote_lock(remote);
    } else {
      pthread_cond_wait(&waiter.cond, &remote->lock.mutex);
    }
  }
  dmi_remote_resumes(remote);
  at = &user->waiters;
  while (*at != &waiter)
    at = &(*at)->next;
  *at = waiter.next;
  pthread_cond_destroy(&waiter.cond);
  dmi_doing_waited(noted);
  return error;
}

int32_t dmi_remote_wait(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number) {
  return wait(remote, user, number, false);
}

void dmi_remote_wake(struct dmi_remote_user *user, uint64_t number) {
  for (struct dmi_remote_waiter *waiter = user->waiters; waiter; waiter = waiter->next) {
    if (waiter->number != number) continue;
    waiter->woken = true;
    dmi_wakes++;
    pthread_cond_signal(&waiter->cond);
  }
}

void dmi_remote_wake_all(struct dmi_remote *remote) {
  for (struct dmi_remote_user *user = remote->users; user; user = user->next) {
    for (struct dmi_remote_waiter *waiter = user->waiters; waiter; waiter = waiter->next)
      pthread_cond_signal(&waiter->cond);
  }
  pthread_cond_broadcast(&remote->changed);
  pthread_cond_broadcast(&remote->work);
  pthread_cond_signal(&remote->kick);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static int32_t bad_options(const DMI_client_options_t *options) {
  if (options->processes < 0)
    return dmi_because_of(DMI_EINVAL, "`processes` of the options is negative", options->processes);
  if (options->call_bytes < 0)
    return dmi_because_of(DMI_EINVAL, "`call_bytes` of the options is negative",
                          options->call_bytes);
  return DMI_OK;
}

static struct dmi_remote_user *user_new(struct dmi_remote *remote,
                                        const DMI_client_options_t *options) {
  struct dmi_remote_user *user = dmi_xalloc(1, sizeof(*user));
  struct dmi_remote_book_config config = {
      .survive = remote->survive, .most = CALL_BYTES, .lineage = LINEAGE_BYTES};
  user->id = (dmi_remote_client_t){remote->self.uid, ++remote->last_user};
  user->opener = pthread_self();
  user->in = dmi_remote_mine();
  user->own_poll = options->own_poll != 0;
  user->late = options->late_fetch != 0;
  if (options->call_bytes) config.most = (uint64_t)options->call_bytes;
  config.client = user->id;
  user->book = dmi_remote_book_new(&config);
  for (struct dmi_remote_served *at = remote->servers; at; at = at->hh.next) {
    dmi_remote_book_serves(user->book, &at->as);
    if (at->leaves || (remote->leaving && at->uid == remote->self.uid))
      dmi_remote_book_leaves(user->book, at->uid); /* until it is heard that it stays */
    dmi_remote_carry_book(remote, user);
  }
  user->next = remote->users;
  remote->users = user;
  return user;
}

/* Who waits for long may have started too few, or elsewhere. */
static void say_waits(struct dmi_remote *remote, uint32_t num) {
  const uint32_t there = HASH_COUNT(remote->servers);
  dmi_say(&remote->process->stream, DMI_LOG_WARN, "remote",
          "DMI_client_open waits for %u process%s more to join: %u of %u %s there", num - there,
          num - there == 1 ? "" : "es", there, num, there == 1 ? "is" : "are");
}

/* Waits until so many processes serve. */
static int32_t await_servers(struct dmi_remote *remote, uint32_t num) {
  struct timespec until;
  bool said = false, noted;
  clock_gettime(CLOCK_REALTIME, &until); /* the clock of a condition */
  until.tv_sec += SAID_AFTER;
  while (HASH_COUNT(remote->servers) < num) {
    if (remote->stopping) return DMI_EEND;
    if (remote->ended) return DMI_EINACTIVE;
    noted = dmi_doing_waits(&remote->process->access.doings, DMI_DOING_SERVERS,
                            HASH_COUNT(remote->servers), num, 0);
    if (said) {
      pthread_cond_wait(&remote->changed, &remote->lock.mutex);
    } else if (pthread_cond_timedwait(&remote->changed, &remote->lock.mutex, &until) != 0) {
      say_waits(remote, num);
      said = true;
    }
    dmi_doing_waited(noted);
  }
  return DMI_OK;
}

int32_t dmi_remote_open(struct dmi_process *process, DMI_client_t **client,
                        const DMI_client_options_t *options) {
  static const DMI_client_options_t usual;
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_user *user;
  uint32_t num;
  int32_t error;
  if (!client) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer to the client is NULL"));
  if (!options) options = &usual;
  error = bad_options(options);
  if (error != DMI_OK) return dmi_fail(error);
  if (!remote) return dmi_fail(DMI_EINACTIVE);
  num = options->processes ? (uint32_t)options->processes : !options->own_poll;
  dmi_remote_lock(remote);
  if (!dmi_remote_begin_locked(remote)) {
    dmi_remote_unlock(remote);
    return dmi_fail(DMI_ENOMEM);
  }
  /* What runs is done to its end, also by clients of its own: others serve them. */
  if (remote->leaving && !dmi_remote_mine()) {
    dmi_remote_unlock(remote);
    return dmi_fail(dmi_because(DMI_ELEAVING, "this process was dismissed (DMI_goodbye)"));
  }
  user = user_new(remote, options);
  if (!dmi_remote_poll_begin(remote, user)) error = DMI_ENOMEM;
  if (error == DMI_OK) error = await_servers(remote, num);
  *client = (DMI_client_t *)(uintptr_t)user->id.n;
  dmi_remote_unlock(remote);
  if (error == DMI_OK) return DMI_TRUE;
  (void)dmi_remote_close(process, *client);
  *client = NULL;
  return dmi_fail(error);
}

/* ---- Closing -------------------------------------------------------------------------------- */

/* Waits for the ends of all calls and, in any case, until no other thread uses the client. */
static void await_end(struct dmi_remote *remote, struct dmi_remote_user *user) {
  while (dmi_remote_book_counts(user->book).undone) {
    if (dmi_remote_wait(remote, user, 0) != DMI_OK) break;
  }
  while (user->inside)
    (void)wait(remote, user, 0, true);
}

/* The program did not look at any value that could not be made, or the calls had none. */
static void say_unread(struct dmi_remote *remote, const struct dmi_remote_user *user) {
  uint64_t calls;
  const struct dmi_remote_why *why = dmi_remote_book_failure(user->book, &calls);
  if (!why || user->told || remote->stopping || remote->ended) return;
  dmi_say(
      &remote->process->stream, DMI_LOG_WARN, "remote",
      "%llu call%s of a client that is closed %s failed, and nobody has read why; the first: %s "
      "on %s: %.200s",
      (unsigned long long)calls, calls == 1 ? "" : "s", calls == 1 ? "has" : "have",
      why->function[0] ? why->function : "a call", why->host[0] ? why->host : "its client",
      why->sentence);
}

static void close_at_all(struct dmi_remote *remote, const struct dmi_remote_user *user) {
  dmi_remote_pack_client(dmi_remote_line(remote, remote->self.uid, DMI_RMT_CLOSE), user->id);
  for (struct dmi_remote_served *at = remote->servers; at; at = at->hh.next) {
    if (at->uid == remote->self.uid) continue;
    dmi_remote_pack_client(dmi_remote_line(remote, at->uid, DMI_RMT_CLOSE), user->id);
  }
}

/* Keeps only arenas whose makers are told of CLOSE no more: they leave, or have gone. */
static void find_orphans(struct dmi_remote *remote, struct dmi_remote_user *user) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < user->lent_num; i++) {
    const struct dmi_remote_served *served;
    HASH_FIND(hh, remote->servers, &user->lent[i].maker, sizeof(dmi_uid_t), served);
    if (!served || served->leaves) user->lent[kept++] = user->lent[i];
  }
  user->lent_num = kept;
}

/* One that its maker has unmapped before is not there any more, and its address is not used again.
 * Not waited for: while the home of an arena leaves that is put off until it has left, which may be
 * this process, whose leave waits for the function that closes the client. */
static void unmap_orphans(struct dmi_process *process, const struct dmi_remote_user *user) {
  for (uint32_t i = 0; i < user->lent_num; i++)
    dmi_call_unmap_later(process, user->lent[i].base, 0); /* DMI_TAG_USER */
}

static void unlink_user(struct dmi_remote *remote, struct dmi_remote_user *user) {
  struct dmi_remote_user **at = &remote->users;
  while (*at != user)
    at = &(*at)->next;
  *at = user->next;
}

/* This process was asked to leave, and no client needs it any more.  Threads of the program that
 * run here may: the next client that is closed says it again. */
static void leave(struct dmi_remote *remote) {
  const int32_t self = (int32_t)remote->process->dmi_id.n;
  if (dmi_call_goodbye(remote->process, self, NULL) || dmi_error_last() != DMI_EBUSY) return;
  dmi_remote_lock(remote);
  remote->asked = true;
  dmi_remote_unlock_later(remote);
}

int32_t dmi_remote_close(struct dmi_process *process, DMI_client_t *client) {
  struct dmi_remote *remote = process->remote;
  struct dmi_remote_user *user;
  bool leaves;
  if (!remote) return dmi_fail(DMI_EINACTIVE);
  dmi_remote_lock(remote);
  user = dmi_remote_user(remote, client);
  if (!user || user->closing || user->in != dmi_remote_mine()) {
    const bool open = user && !user->closing;
    dmi_remote_unlock(remote);
    return dmi_fail(dmi_because(DMI_EINVAL, !open      ? "the client is not open"
                                            : user->in ? "a remote function has opened this client"
                                                       : "a remote function did not open it"));
  }
  user->closing = true;
  await_end(remote, user);
  if (user->polls) {
    dmi_remote_unlock(remote);
    dmi_remote_poll_end(remote, user);
    dmi_remote_lock(remote);
  }
  say_unread(remote, user);
  close_at_all(remote, user);
  find_orphans(remote, user);
  unlink_user(remote, user);
  leaves = remote->asked && !dmi_remote_has_client(remote);
  if (leaves) remote->asked = false;
  dmi_remote_unlock(remote);
  dmi_remote_book_free(user->book);
  unmap_orphans(process, user);
  free(user->lent);
  free(user);
  if (leaves) leave(remote);
  return DMI_TRUE;
}

void dmi_remote_close_left(struct dmi_remote *remote, const DMI_remote_t *call) {
  for (;;) {
    struct dmi_remote_user *user;
    uintptr_t n;
    dmi_remote_lock(remote);
    user = remote->users;
    while (user &&
           (user->in != call || user->closing || !pthread_equal(user->opener, pthread_self())))
      user = user->next;
    n = user ? user->id.n : 0;
    dmi_remote_unlock(remote);
    if (!n) return;
    if (!atomic_exchange(&remote->warned, 1))
      dmi_say(&remote->process->stream, DMI_LOG_WARN, "remote",
              "a client of remote functions was not closed (DMI_client_close): that is done now");
    (void)dmi_remote_close(remote->process, (DMI_client_t *)n);
  }
}
