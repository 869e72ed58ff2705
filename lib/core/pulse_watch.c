/*
 * pulse_watch.c - silence: who is heard, who is suspected, and what others are asked about it.
 *
 * Suspicion by silence ends when the process is heard; that by a broken connection, or proof of
 * death, does not.
 */
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "core/pulse_int.h"
#include "msg/addr.h"

#define PROBES 2u       /* others that are asked about one that is silent */
#define UNLIMITED 5000u /* dead_after that spans without a limit are made of, if it is never */

dmi_ms_t dmi_pulse_span(const struct dmi_pulse *p, uint32_t hundredths) {
  dmi_ms_t all = p->config.dead_after ? p->config.dead_after : UNLIMITED;
  return all * hundredths / 100;
}

dmi_ms_t dmi_pulse_short(const struct dmi_pulse *p, uint32_t hundredths) {
  dmi_ms_t span = dmi_pulse_span(p, hundredths), most = 10 * hundredths;
  return span < most ? span : most;
}

dmi_ms_t dmi_pulse_limit(const struct dmi_pulse *p, uint32_t hundredths) {
  return p->config.dead_after ? dmi_pulse_span(p, hundredths) : DMI_MS_NEVER;
}

/* ---- Who is heard --------------------------------------------------------------------------- */

static void no_doubt(struct dmi_pulse_peer *peer) {
  if (peer->doubt == DMI_DOUBT_SILENT || peer->doubt == DMI_DOUBT_UNANSWERED)
    peer->doubt = DMI_DOUBT_NONE;
}

void dmi_pulse_heard(struct dmi_pulse *p, struct dmi_pulse_peer *peer) {
  peer->heard = peer->direct = p->now;
  peer->probed = false;
  no_doubt(peer);
  if (!peer->silent) return;
  peer->silent = false;
  dmi_pulse_act(p, DMI_PULSE_HEARD)->uid = peer->uid;
}

void dmi_pulse_forgive(struct dmi_pulse *p, dmi_ms_t span) {
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    peer->heard = peer->heard + span < p->now ? peer->heard + span : p->now;
    peer->direct = peer->direct + span < p->now ? peer->direct + span : p->now;
  }
}

void dmi_pulse_watch(struct dmi_pulse *p, struct dmi_pulse_peer *peer, bool watched) {
  if (watched && !peer->watched) {
    peer->heard = peer->direct = p->now;
    peer->silent = peer->probed = false;
  }
  peer->watched = watched;
}

/* ---- Suspicion ------------------------------------------------------------------------------ */

static const char *reason(enum dmi_pulse_doubt doubt, char text[128], dmi_ms_t silent) {
  switch (doubt) {
    case DMI_DOUBT_SILENT:
      snprintf(text, 128, "nothing was heard of it for %llu.%llu s (--dead-after)",
               (unsigned long long)(silent / 1000), (unsigned long long)(silent % 1000 / 100));
      return text;
    case DMI_DOUBT_LINK:
      return "the connection between it and another process was lost";
    case DMI_DOUBT_DEAD:
      return "its process has ended";
    default:
      return "the connection was closed";
  }
}

/* Without `survive` that is the end of it.  With it a view decides, and people want to know why. */
static void say_doubt(struct dmi_pulse *p, const struct dmi_pulse_peer *peer) {
  bool quiet = peer->doubt == DMI_DOUBT_SILENT || peer->doubt == DMI_DOUBT_LINK;
  char text[128];
  struct dmi_pulse_act *act;
  if (peer->uid == p->config.self || (p->config.survive && !quiet)) return;
  act = dmi_pulse_act(p, p->config.survive ? DMI_PULSE_DOUBT : DMI_PULSE_LOST);
  act->uid = peer->uid;
  act->text = dmi_xalloc_text(reason(peer->doubt, text, p->now - peer->direct));
}

void dmi_pulse_doubt(struct dmi_pulse *p, struct dmi_pulse_peer *peer, enum dmi_pulse_doubt doubt) {
  if (peer->doubt >= doubt) return;
  peer->doubt = doubt;
  say_doubt(p, peer);
}

/* Who tells all of deaths: the coordinator; if that is suspected, who is the first to try to lead.
 */
static dmi_uid_t crier(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, top->coordinator);
  dmi_uid_t first = 0;
  if (peer && !peer->doubt) return peer->uid;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    peer = &p->peers.at[i];
    if (peer->in && !peer->doubt && dmi_crash_voter(top, peer->uid) &&
        (!first || peer->uid < first))
      first = peer->uid;
  }
  return first;
}

static void tell_dead(struct dmi_pulse *p, dmi_uid_t to) {
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *dead = &p->peers.at[i];
    if (dead->in && dead->doubt == DMI_DOUBT_DEAD)
      dmi_pulse_send(p, to, DMI_CTL_DEAD)->probe.about = dead->uid;
  }
}

/* Those who cannot see deaths for themselves are told, by one process: if each told all, each would
 * have to connect to all.  Any death may have made another one the crier, so it hears of all. */
static void cry(struct dmi_pulse *p) {
  dmi_uid_t one = crier(p);
  if (one && one != p->config.self) {
    tell_dead(p, one);
    return;
  }
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (peer->in && peer->uid != p->config.self && peer->doubt < DMI_DOUBT_BROKEN)
      tell_dead(p, peer->uid);
  }
}

void dmi_pulse_dead_known(struct dmi_pulse *p, struct dmi_pulse_peer *dead) {
  if (dead->doubt == DMI_DOUBT_DEAD) return;
  dmi_pulse_doubt(p, dead, DMI_DOUBT_DEAD);
  cry(p);
}

/* Only the attempt to connect matters: a process that lives answers. */
void dmi_pulse_knock(struct dmi_pulse *p, const struct dmi_pulse_peer *broken) {
  if (p->config.trust_refused && p->config.survive && broken->doubt == DMI_DOUBT_BROKEN)
    dmi_pulse_send(p, broken->uid, DMI_CTL_PROBE)->probe.about = broken->uid;
}

/* Sixty-four bits come; a uid has fewer. */
static bool about_good(const struct dmi_msg *msg) {
  return msg->probe.about && msg->probe.about < DMI_NET_TEMP;
}

bool dmi_pulse_on_dead(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, (dmi_uid_t)msg->probe.about);
  if (!about_good(msg) || msg->probe.about == p->config.self || msg->probe.about == from)
    return false;
  if (!peer || !dmi_pulse_peer(p, from) || peer->doubt == DMI_DOUBT_DEAD) return true;
  dmi_pulse_doubt(p, peer, DMI_DOUBT_DEAD);
  if (crier(p) == p->config.self) cry(p);
  return true;
}

/* The others that are asked to probe: those whose pulses come. */
static void probe(struct dmi_pulse *p, struct dmi_pulse_peer *about) {
  uint32_t sent = 0;
  about->probed = true;
  for (uint32_t i = 0; i < p->peers.num && sent < PROBES; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (!peer->in || peer == about || peer->uid == p->config.self || peer->doubt || peer->silent)
      continue;
    dmi_pulse_send(p, peer->uid, DMI_CTL_PROBE)->probe.about = about->uid;
    sent++;
  }
}

/* Others that hear it delay the end, once: the way between it and this process may recover. */
static dmi_ms_t lost_at(const struct dmi_pulse *p, const struct dmi_pulse_peer *peer) {
  dmi_ms_t span = dmi_pulse_limit(p, 100), last = peer->direct + 2 * span;
  return peer->heard + span < last ? peer->heard + span : last;
}

static void look_at(struct dmi_pulse *p, struct dmi_pulse_peer *peer) {
  if (!peer->silent && p->now >= peer->direct + dmi_pulse_limit(p, DMI_SPAN_SILENT)) {
    peer->silent = true;
    dmi_pulse_act(p, DMI_PULSE_SILENT)->uid = peer->uid;
  }
  if (!peer->probed && p->now >= peer->direct + dmi_pulse_limit(p, DMI_SPAN_PROBE)) probe(p, peer);
  if (p->now >= lost_at(p, peer)) dmi_pulse_doubt(p, peer, DMI_DOUBT_SILENT);
}

void dmi_pulse_look_silent(struct dmi_pulse *p) {
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (peer->watched && !peer->doubt) look_at(p, peer);
  }
}

/* ---- Probes --------------------------------------------------------------------------------- */

/* About this process itself: it is here. */
bool dmi_pulse_on_probe(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  dmi_uid_t about = (dmi_uid_t)msg->probe.about;
  const struct dmi_pulse_asker asker = {about, from};
  if (!about_good(msg)) return false;
  if (about == p->config.self) {
    dmi_pulse_send(p, from, DMI_CTL_PROBED)->probe.about = about;
    return true;
  }
  if (!dmi_pulse_peer(p, about) || !dmi_pulse_peer(p, from)) return true;
  for (uint32_t i = 0; i < p->askers.num; i++) {
    if (p->askers.at[i].about == about && p->askers.at[i].asker == from) return true;
  }
  DMI_XALLOC_GROW(p->askers.at, p->askers.num, p->askers.capacity);
  p->askers.at[p->askers.num++] = asker;
  dmi_pulse_send(p, about, DMI_CTL_PROBE)->probe.about = about;
  return true;
}

bool dmi_pulse_on_probed(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  dmi_uid_t about = (dmi_uid_t)msg->probe.about;
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, about);
  if (!about_good(msg)) return false;
  if (!peer || !dmi_pulse_peer(p, from)) return true;
  if (about == from) {
    dmi_pulse_heard(p, peer);
  } else {
    peer->heard = p->now;
    no_doubt(peer);
  }
  for (uint32_t i = p->askers.num; i-- > 0;) {
    if (p->askers.at[i].about != about || from != about) continue;
    dmi_pulse_send(p, p->askers.at[i].asker, DMI_CTL_PROBED)->probe.about = about;
    p->askers.at[i] = p->askers.at[--p->askers.num];
  }
  return true;
}

/* ---- Broken links between two others --------------------------------------------------------- */

/* To the coordinator, each new one again. */
void dmi_pulse_tell_link(struct dmi_pulse *p, const struct dmi_pulse_peer *broken) {
  dmi_uid_t coordinator = dmi_pulse_top(p)->coordinator;
  if (!p->config.survive || coordinator == p->config.self || coordinator == broken->uid) return;
  dmi_pulse_send(p, coordinator, DMI_CTL_LINK_LOST)->probe.about = broken->uid;
}

bool dmi_pulse_on_link_lost(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  const struct dmi_pulse_bad_link link = {from, (dmi_uid_t)msg->probe.about, p->now};
  if (!about_good(msg) || link.a == link.b || link.b == p->config.self) return false;
  if (!dmi_pulse_coordinates(p) || !dmi_pulse_peer(p, link.a) || !dmi_pulse_peer(p, link.b))
    return true;
  for (uint32_t i = 0; i < p->links.num; i++) {
    const struct dmi_pulse_bad_link *known = &p->links.at[i];
    if (known->a == link.a && known->b == link.b) return true;
  }
  DMI_XALLOC_GROW(p->links.at, p->links.num, p->links.capacity);
  p->links.at[p->links.num++] = link;
  return true;
}

static uint32_t bad_links(const struct dmi_pulse *p, dmi_uid_t uid) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < p->links.num; i++)
    num += p->links.at[i].a == uid || p->links.at[i].b == uid;
  return num;
}

/* Which of the two goes: not the tie holder, rather the one with more bad links, then the higher
 * uid. */
static struct dmi_pulse_peer *worse(struct dmi_pulse *p, struct dmi_pulse_peer *a,
                                    struct dmi_pulse_peer *b) {
  dmi_uid_t tie = dmi_pulse_top(p)->tie;
  uint32_t of_a = bad_links(p, a->uid), of_b = bad_links(p, b->uid);
  if (a->uid == tie || a->uid == p->config.self) return b;
  if (b->uid == tie || b->uid == p->config.self) return a;
  if (of_a != of_b) return of_a > of_b ? a : b;
  return a->uid > b->uid ? a : b;
}

/* By then it is known if one of them is dead. */
void dmi_pulse_look_links(struct dmi_pulse *p) {
  for (uint32_t i = 0; i < p->links.num;) {
    struct dmi_pulse_bad_link link = p->links.at[i];
    struct dmi_pulse_peer *a = dmi_pulse_peer(p, link.a), *b = dmi_pulse_peer(p, link.b);
    bool moot = !a || !b || !a->in || !b->in || a->doubt || b->doubt;
    if (!moot && p->now < link.since + dmi_pulse_short(p, DMI_SPAN_LINK)) {
      i++;
      continue;
    }
    if (!moot) dmi_pulse_doubt(p, worse(p, a, b), DMI_DOUBT_LINK);
    p->links.at[i] = p->links.at[--p->links.num];
  }
}

/* ---- When it is next ------------------------------------------------------------------------- */

static dmi_ms_t look_wake(const struct dmi_pulse *p, const struct dmi_pulse_peer *peer) {
  dmi_ms_t wake = lost_at(p, peer);
  dmi_ms_t silent = peer->direct + dmi_pulse_limit(p, DMI_SPAN_SILENT);
  dmi_ms_t probe_at = peer->direct + dmi_pulse_limit(p, DMI_SPAN_PROBE);
  if (!peer->silent && silent < wake) wake = silent;
  if (!peer->probed && probe_at < wake) wake = probe_at;
  return wake;
}

dmi_ms_t dmi_pulse_watch_wake(const struct dmi_pulse *p) {
  dmi_ms_t wake = DMI_MS_NEVER;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (!peer->watched || peer->doubt) continue;
    if (look_wake(p, peer) < wake) wake = look_wake(p, peer);
  }
  for (uint32_t i = 0; i < p->links.num; i++) {
    dmi_ms_t at = p->links.at[i].since + dmi_pulse_short(p, DMI_SPAN_LINK);
    if (at < wake) wake = at;
  }
  return wake;
}
