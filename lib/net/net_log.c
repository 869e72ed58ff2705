/*
 * net_log.c - lines about connections, for people: not more than some in a few seconds, whatever
 * strangers do.
 */
#include <stdarg.h>
#include <stdio.h>

#include "net/net_int.h"

#define LOG_LINES 10 /* at most in LOG_SECONDS */
#define LOG_SECONDS 5.0

static void say(struct dmi_net *net, enum dmi_net_about about, const char *line) {
  if (net->handler.log != NULL) {
    net->handler.log(net->handler.arg, line);
  } else if (net->config.stream != NULL && about == DMI_ABOUT_STRANGERS) {
    dmi_emit(net->stream, refused, .text = line);
  } else {
    dmi_say(net->config.stream, DMI_LOG_WARN, "net", "%s", line);
  }
}

void dmi_net_on_log_end(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_net *net = timer->data;
  struct dmi_net_limit *limit = (struct dmi_net_limit *)timer;
  char line[128];
  uint32_t more = limit->lines > LOG_LINES ? limit->lines - LOG_LINES : 0;
  limit->lines = 0;
  if (more == 0) return;
  snprintf(line, sizeof line, "(%u more lines about connections%s are left out)", more,
           limit == &net->log[DMI_ABOUT_STRANGERS] ? " from outside" : "");
  say(net, limit == &net->log[DMI_ABOUT_STRANGERS] ? DMI_ABOUT_STRANGERS : DMI_ABOUT_OURS, line);
}

bool dmi_net_may_log(struct dmi_net *net, enum dmi_net_about about) {
  struct dmi_net_limit *limit = &net->log[about];
  if (limit->lines++ == 0) {
    ev_timer_set(&limit->end, LOG_SECONDS, 0);
    ev_timer_start(net->loop, &limit->end);
  }
  return limit->lines <= LOG_LINES;
}

static void say_as(struct dmi_net *net, enum dmi_net_about about, const char *format,
                   va_list args) {
  char line[1024];
  vsnprintf(line, sizeof line, format, args);
  say(net, about, line);
}

void dmi_net_say(struct dmi_net *net, enum dmi_net_about about, const char *format, ...) {
  va_list args;
  va_start(args, format);
  say_as(net, about, format, args);
  va_end(args);
}

void dmi_net_log(struct dmi_net *net, enum dmi_net_about about, const char *format, ...) {
  va_list args;
  if (!dmi_net_may_log(net, about)) return;
  va_start(args, format);
  say_as(net, about, format, args);
  va_end(args);
}
