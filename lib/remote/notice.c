/*
 * notice.c - the thread that handles the notices of the program for a client: it welcomes who asks
 * to join, and dismisses who asks to leave.
 *
 * DMI_goodbye does not wait: its answer is looked at with the next notice, and all are waited for
 * at the end.  The end is a notice, too, which the client that is closed sends to itself
 * (dmi_call_poll_or_end).  Notes of the program are for another thread of it: they are said again
 * at the end, as this one would get them back before.
 */
#include <stdlib.h>

#include "elastic/elastic.h"
#include "node/calls.h"
#include "node/runtime.h"
#include "remote/remote_int.h"

static void say_goodbye(struct dmi_remote *remote, struct dmi_remote_goodbye *goodbye) {
  (void)dmi_call_goodbye(remote->process, goodbye->dmi_id, &goodbye->status);
}

/* Forgets those that have been answered.  Where threads of the program still ran, the notice does
 * not come again: so it is said again, with each notice of others, or by the next such thread. */
static void look_at(struct dmi_remote *remote, bool wait) {
  struct dmi_remote_goodbye **list = &remote->goodbyes;
  while (*list) {
    struct dmi_remote_goodbye *goodbye = *list;
    struct dmi_status *status = dmi_status_of(&goodbye->status);
    if (!wait && !dmi_status_is_done(status)) {
      list = &goodbye->next;
    } else if (dmi_status_wait(status) == DMI_EBUSY) {
      if (!wait) say_goodbye(remote, goodbye);
      list = &goodbye->next;
    } else {
      *list = goodbye->next;
      free(goodbye);
    }
  }
}

static void on_close(struct dmi_remote *remote, int32_t dmi_id) {
  struct dmi_remote_goodbye *goodbye;
  if ((uint32_t)dmi_id == remote->process->dmi_id.n) {
    dmi_remote_lock(remote);
    remote->asked = true;
    dmi_remote_unlock_later(remote);
    return;
  }
  goodbye = dmi_xalloc(1, sizeof(*goodbye));
  goodbye->dmi_id = dmi_id;
  goodbye->next = remote->goodbyes;
  remote->goodbyes = goodbye;
  say_goodbye(remote, goodbye);
}

struct notes {
  uint32_t num, room;
  int64_t *values;
};

static void on_note(struct notes *notes, int64_t value) {
  DMI_XALLOC_GROW(notes->values, notes->num, notes->room);
  notes->values[notes->num++] = value;
}

static void say_again(struct dmi_remote *remote, struct notes *notes) {
  for (uint32_t i = 0; i < notes->num; i++)
    (void)dmi_call_notify(remote->process, notes->values[i], NULL);
  free(notes->values);
}

static void *body(void *arg) {
  struct dmi_remote *remote = arg;
  const int64_t end = dmi_call_end_note(remote->process);
  struct notes notes = {0, 0, NULL};
  DMI_node_t node;
  dmi_remote_thread_begin(remote, "dmi-client");
  for (struct dmi_remote_goodbye *at = remote->goodbyes; at; at = at->next)
    say_goodbye(remote, at); /* they were refused */
  while (dmi_call_poll_or_end(remote->process, &node)) {
    if (node.state == DMI_OPEN) (void)dmi_call_welcome(remote->process, node.dmi_id);
    if (node.state == DMI_CLOSE) on_close(remote, node.dmi_id);
    if (node.state == DMI_NOTE && node.value == end) break;
    if (node.state == DMI_NOTE) on_note(&notes, node.value);
    look_at(remote, false);
  }
  look_at(remote, true);
  say_again(remote, &notes);
  return NULL;
}

bool dmi_remote_poll_begin(struct dmi_remote *remote, struct dmi_remote_user *user) {
  if (user->own_poll || user->in ||
      dmi_elastic_begin(remote->process, "a client of remote functions") != DMI_OK)
    return true;
  user->polls = pthread_create(&user->poller, NULL, body, remote) == 0;
  if (!user->polls) atomic_store(&remote->process->elastic, NULL);
  return user->polls;
}

void dmi_remote_poll_end(struct dmi_remote *remote, struct dmi_remote_user *user) {
  /* else the program ends, and polls fail */
  (void)dmi_call_notify(remote->process, dmi_call_end_note(remote->process), NULL);
  pthread_join(user->poller, NULL);
  user->polls = false; /* it is closing: no other thread reads that */
  dmi_elastic_end(remote->process);
}

void dmi_remote_polls(struct dmi_remote *remote) {
  dmi_remote_lock(remote);
  for (struct dmi_remote_user *user = remote->users; user; user = user->next) {
    if (user->closing) continue;
    (void)dmi_remote_poll_begin(remote, user);
    if (user->polls) break;
  }
  dmi_remote_unlock_later(remote);
}
