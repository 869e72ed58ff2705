/*
 * line.c - what is to be sent: things for a process are gathered in one body as long as they are of
 * one kind, and become a message when another kind follows, when they are many, or when whoever has
 * caused them is done.  So a burst of calls is few messages, and one system call.
 *
 * Things that follow each other to a process arrive in this order.  What is for this process itself
 * takes the same way, but not the network.
 *
 * What nobody waits for, as DROP, is sent with the next thing for that process; by whoever knows
 * that there may be none, at once.
 *
 * A client's thread that issues calls leaves sending to another thread (dmi_remote_unlock_later):
 * that sends what has gathered while it was sending before.
 */
#include "remote/remote_int.h"

#include <stdlib.h>

#include "remote/bytes.h"
#include "net/net.h"

#define BODY ((size_t)32 << 10)     /* bytes: a body that has as many is sent */
#define WEIGHT ((uint64_t)64 << 10) /* what may wait is sent if it has as much */
#define FLUSHED 16                  /* processes that are flushed at a time */

static struct dmi_remote_line *line_of(struct dmi_remote *remote, dmi_uid_t uid) {
  struct dmi_remote_line *line;
  HASH_FIND(hh, remote->lines, &uid, sizeof(uid), line);
  if (line) return line;
  line = dmi_xalloc(1, sizeof(*line));
  line->uid = uid;
  dmi_pack_init(&line->body);
  HASH_ADD(hh, remote->lines, uid, sizeof(line->uid), line);
  return line;
}

/* Gives what has gathered to the network, or to the queue of this process. */
static void end_body(struct dmi_remote *remote, struct dmi_remote_line *line) {
  struct dmi_msg msg = {.type = (uint8_t)line->type};
  if (!line->num) return;
  msg.remote.num = line->num;
  msg.body = dmi_pack_slice(&line->body);
  line->num = 0;
  if (line->uid == remote->self.uid) {
    struct dmi_remote_letter *letter = dmi_xalloc(1, sizeof(*letter));
    letter->type = msg.type;
    letter->num = msg.remote.num;
    letter->body = msg.body;
    *remote->letters_end = letter;
    remote->letters_end = &letter->next;
  } else if (!line->shut && dmi_net_send(remote->process->access.net, line->uid, &msg)) {
    line->unsent = true;
  } else {
    line->shut = true;         /* it counts what it gets, so there may be no gap */
    dmi_slice_drop(&msg.body); /* it has left: the machines are told */
  }
}

static void begin_thing(struct dmi_remote *remote, struct dmi_remote_line *line,
                        enum dmi_msg_type type) {
  if (line->num && (line->type != type || line->body.len >= BODY)) end_body(remote, line);
  line->type = type;
  line->num++;
}

/* It is sent when the lock is released. */
static void list(struct dmi_remote *remote, struct dmi_remote_line *line) {
  line->weight = 0;
  if (line->listed) return;
  line->listed = true;
  line->next = remote->lines_used;
  remote->lines_used = line;
}

struct dmi_pack *dmi_remote_line(struct dmi_remote *remote, dmi_uid_t to, enum dmi_msg_type type) {
  struct dmi_remote_line *line = line_of(remote, to);
  begin_thing(remote, line, type);
  list(remote, line);
  return &line->body;
}

struct dmi_pack *dmi_remote_line_lazy(struct dmi_remote *remote, dmi_uid_t to,
                                      enum dmi_msg_type type, uint64_t weight) {
  struct dmi_remote_line *line = line_of(remote, to);
  begin_thing(remote, line, type);
  if (!line->listed) line->weight = dmi_remote_sum(line->weight, weight);
  if (line->weight >= WEIGHT || to == remote->self.uid) list(remote, line);
  return &line->body;
}

void dmi_remote_line_go(struct dmi_remote *remote, dmi_uid_t to) {
  struct dmi_remote_line *line;
  HASH_FIND(hh, remote->lines, &to, sizeof(to), line);
  if (line && (line->num || line->unsent)) list(remote, line);
}

/* Gives messages of this process to itself; these may cause further ones. */
static void deliver(struct dmi_remote *remote) {
  while (remote->letters) {
    struct dmi_remote_letter *letter = remote->letters;
    remote->letters = letter->next;
    if (!remote->letters) remote->letters_end = &remote->letters;
    (void)dmi_remote_deliver(remote, remote->self.uid, letter->type, letter->num, &letter->body);
    dmi_slice_drop(&letter->body);
    free(letter);
  }
}

/* Takes up to FLUSHED processes out of the list, with all bodies ended; returns how many are to be
 * flushed. */
static uint32_t take_lines(struct dmi_remote *remote, dmi_uid_t *uids) {
  uint32_t num = 0;
  while (remote->lines_used && num < FLUSHED) {
    struct dmi_remote_line *line = remote->lines_used;
    end_body(remote, line);
    remote->lines_used = line->next;
    line->listed = false;
    if (line->unsent) uids[num++] = line->uid;
    line->unsent = false;
  }
  return num;
}

void dmi_remote_unlock(struct dmi_remote *remote) {
  dmi_uid_t uids[FLUSHED];
  for (;;) {
    uint32_t num = take_lines(remote, uids);
    bool more = remote->lines_used || remote->letters;
    if (num || !more) dmi_mutex_unlock(&remote->lock);
    for (uint32_t i = 0; i < num; i++)
      dmi_net_flush(remote->process->access.net, uids[i]);
    if (!more) return;
    if (num) dmi_mutex_lock(&remote->lock);
    /* Behind what others wait for: it takes time, and this process can do nothing without it. */
    deliver(remote);
  }
}

void dmi_remote_unlock_later(struct dmi_remote *remote) {
  if (remote->lines_used && !remote->kicked) {
    remote->kicked = true;
    pthread_cond_signal(&remote->kick);
  }
  dmi_mutex_unlock(&remote->lock);
}

void *dmi_remote_sender(void *arg) {
  struct dmi_remote *remote = arg;
  dmi_remote_thread_begin(remote, "dmi-remote");
  dmi_remote_lock(remote);
  while (!remote->ended) {
    if (!remote->kicked) {
      pthread_cond_wait(&remote->kick, &remote->lock.mutex);
      continue;
    }
    remote->kicked = false;
    dmi_remote_unlock(remote);
    dmi_remote_lock(remote);
  }
  dmi_mutex_unlock(&remote->lock);
  return NULL;
}

void dmi_remote_lines_free(struct dmi_remote *remote) {
  struct dmi_remote_line *line, *next;
  HASH_ITER(hh, remote->lines, line, next) {
    HASH_DEL(remote->lines, line);
    dmi_pack_free(&line->body);
    free(line);
  }
  while (remote->letters) {
    struct dmi_remote_letter *letter = remote->letters;
    remote->letters = letter->next;
    dmi_slice_drop(&letter->body);
    free(letter);
  }
}
