/*
 * control.c - messages of the control connection: resets, interrupts, the end.
 *
 * A reset (RFC-100): whatever waits is given up, SYNC_BALL is sent behind what was already to be
 * sent, and data are discarded until the client's SYNC_BALL comes. The stack, the variables and
 * the links stay; a link that is just being made does not.
 */
#include "ox/encode.h"
#include "ox/session_int.h"

static void give_up(struct dmi_ox_session *s) {
  dmi_ox_group_forget(s);
  dmi_ox_run_forget(s);
}

/* Not before the client's order of bytes is known, and not more than it reads: until it has sent
 * as many back nothing else is sent. */
void dmi_ox_control_balls(struct dmi_ox_session *s) {
  while (s->unsent > 0 && s->data.state == DMI_OX_OPEN &&
         s->data.queued <= s->settings.limits.queue && !s->ended) {
    struct dmi_ox_bytes ball = {0};
    dmi_ox_encode_ball(&ball, s->data.little, s->serial++);
    dmi_ox_session_put(s, &s->data, ball);
    s->unsent--;
  }
}

static void reset(struct dmi_ox_session *s) {
  give_up(s);
  s->balls++;
  s->unsent++;
}

void dmi_ox_control_message(struct dmi_ox_session *s, const struct dmi_ox_message *message) {
  DMI_ox_drop(message->value);
  if (message->tag != DMI_OX_COMMAND) return;
  switch (message->code) {
    case DMI_OX_SHUTDOWN:
    case DMI_OX_KILL:
      dmi_ox_session_end(s);
      break;
    case DMI_OX_RESET_SERVER:
    case DMI_OX_RESET:
      reset(s);
      break;
    case DMI_OX_INTERRUPT:
      if (s->op.kind == DMI_OX_OP_NONE && !s->run.is) break;
      give_up(s);
      dmi_ox_stack_error(s, DMI_OX_E_INTERRUPTED, "interrupted");
      break;
    default:
      break;
  }
}
