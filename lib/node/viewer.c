/*
 * viewer.c - see viewer.h.  It only carries questions and answers; who starts it
 * (bin/lib/DMI/Look.pm) knows what they mean.
 *
 *   stdin:  WHAT OF AT ADDR            numbers: fields of SEE (docs/seeing.md)
 *   stdout: HOW NEXT BYTES             fields of SEEN, in the order in which answers come, with the
 *           NUMBER before them         number of the line of the question, from 1; then the bytes.
 *                                      Number 0: the process that is asked ends in order
 *
 * Failure modes: no such process, another key, or it ends: a line on stderr, and status 1.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/viewer.h"

#include <errno.h>
#include <ev.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/net.h"
#include "node/contact.h"
#include "node/key.h"
#include "node/self.h"

struct view {
  const struct dmi_config *config;
  struct dmi_stream *stream;
  struct dmi_net *net;
  struct ev_io input;
  uint32_t temp;               /* the process that is asked; 0: none yet */
  char host[DMI_CONTACT_HOST]; /* where it was asked */
  uint16_t port;
  char advice[DMI_CONTACT_HOST + 60]; /* if it cannot be asked there */
  uint32_t asked, heard;
  bool failed;
  const char *over; /* how the process that is asked has ended in order; NULL: it has not */
  size_t length;
  char line[256]; /* of stdin, so far */
};

static void end(struct view *view, const char *why) {
  if (why) {
    view->failed = true;
    dmi_say(view->stream, DMI_LOG_ERROR, "look", "%s", why);
  }
  ev_io_stop(dmi_net_loop(view->net), &view->input);
  if (view->temp) dmi_net_close(view->net, view->temp);
  view->temp = 0;
  dmi_net_stop(view->net);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static bool ask(struct view *view, const char *line) {
  struct dmi_msg msg = {.type = DMI_SEE_ASK};
  struct dmi_msg_see *see = &msg.see;
  if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64, &see->what, &see->of, &see->at,
             &see->addr) != 4)
    return false;
  see->number = ++view->asked;
  see->heard = view->heard;
  (void)dmi_net_send(view->net, view->temp, &msg);
  return true;
}

static void on_input(struct ev_loop *loop, struct ev_io *io, int events) {
  struct view *view = io->data;
  char bytes[512];
  ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
  (void)loop;
  (void)events;
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) end(view, NULL);
  for (ssize_t i = 0; i < count; i++) {
    if (bytes[i] != '\n' && view->length + 1 < sizeof(view->line)) {
      view->line[view->length++] = bytes[i];
      continue;
    }
    view->line[view->length] = '\0';
    view->length = 0;
    if (!ask(view, view->line)) {
      end(view, "a line of stdin is no question");
      return;
    }
  }
}

/* ---- The network ------------------------------------------------------------------------------
 */

static void on_joined(void *arg, uint32_t temp, const char *why) {
  struct view *view = arg;
  if (why) {
    end(view, why);
    return;
  }
  view->temp = temp;
  ev_io_start(dmi_net_loop(view->net), &view->input);
}

static void *on_body(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  (void)arg;
  (void)from;
  if (class != DMI_CLASS_SEE) return NULL;
  msg->body.frame = dmi_frame_new(msg->body.len);
  return msg->body.frame ? msg->body.frame->bytes : NULL;
}

static bool on_message(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  struct view *view = arg;
  bool good = class == DMI_CLASS_SEE && msg->type == DMI_SEE_ANSWER && from == view->temp;
  if (good) {
    if (msg->seen.number) {
      view->heard++;
    } else {
      view->over =
          msg->seen.how == DMI_SEEN_GOOD ? "the program has ended" : "has left the program";
    }
    printf("%" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", msg->seen.number, msg->seen.how,
           msg->seen.next, msg->body.ptr ? msg->body.len : 0);
    if (msg->body.ptr) fwrite(msg->body.ptr, 1, msg->body.len, stdout);
    if (fflush(stdout) != 0) end(view, NULL); /* nobody wants it any more */
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

static void on_lost(void *arg, uint32_t id, const char *why) {
  struct view *view = arg;
  char text[DMI_NET_WHY + DMI_CONTACT_HOST];
  (void)id;
  snprintf(text, sizeof text, "%s port %u was asked, and %s%s", view->host, view->port,
           view->over ? "" : "is lost: ", view->over ? view->over : why);
  end(view, text);
}

/* Nobody is let in: it only asks. */
static void on_stranger(void *arg, uint32_t temp) {
  dmi_net_close(((struct view *)arg)->net, temp);
}

static void on_posted(void *arg) {
  (void)arg;
}

static struct dmi_net *open_net(struct view *view, const struct dmi_self *self, const char **why) {
  struct dmi_net_config config = dmi_self_net(self, view->config);
  struct dmi_net_handler handler = {.arg = view,
                                    .body = on_body,
                                    .message = on_message,
                                    .lost = on_lost,
                                    .stranger = on_stranger,
                                    .joined = on_joined,
                                    .posted = on_posted};
  struct dmi_net *net = NULL;
  const bool colon = strchr(view->host, ':') != NULL;
  /* Who looks may have given neither of the options of dmirun. */
  snprintf(view->advice, sizeof view->advice, "check host and port: %s%s%s:%u was asked",
           colon ? "[" : "", view->host, colon ? "]" : "", view->port);
  config.join_advice = view->advice;
  config.listen_port = 0; /* any */
  *why = NULL;            /* a line has said it */
  if (dmi_key_read(config.key, view->config->key_file, view->config->key_fd, view->stream))
    net = dmi_net_open(&config, &handler, why);
  sodium_memzero(config.key, sizeof(config.key));
  return net;
}

/* Whom to ask.  False: *why says why nobody. */
static bool find(const struct dmi_config *config, char host[DMI_CONTACT_HOST], uint16_t *port,
                 char why[DMI_CONTACT_WHY]) {
  if (config->join_file) return dmi_contact_read(config->join_file, host, port, why);
  snprintf(host, DMI_CONTACT_HOST, "%s", config->join_host ? config->join_host : "localhost");
  *port = config->join_port;
  return true;
}

bool dmi_viewer(const struct dmi_config *config, const char *argv0, struct dmi_stream *stream) {
  struct view view = {.config = config, .stream = stream};
  char text[DMI_CONTACT_WHY];
  const char *why = NULL;
  struct dmi_self self;
  if (!dmi_self_find(&self, config, argv0, NULL)) {
    why = self.why;
  } else if (!find(config, view.host, &view.port, text)) {
    why = text;
  } else if ((view.net = open_net(&view, &self, &why)) != NULL) {
    ev_io_init(&view.input, on_input, STDIN_FILENO, EV_READ);
    view.input.data = &view;
    dmi_net_join(view.net, view.host, view.port);
    dmi_net_run(view.net);
    dmi_net_free(view.net);
    return !view.failed;
  }
  if (why) dmi_say(stream, DMI_LOG_ERROR, "look", "%s", why);
  return false;
}
