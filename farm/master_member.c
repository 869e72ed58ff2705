/*
 * master_member.c - workers: processes that come, and go.
 *
 * What may have to wait for another process - welcoming it, the end of its thread, freeing its
 * pages, dismissing it - is a chore: a thread does it, and tells the master with DMI_notify.  So a
 * slow worker does not delay the others.
 *
 *   OPEN        chore: welcome, pages, thread         CLOSE, broken, lost, the job is over
 *    ------> COMES ---------------------------> HERE ------------------------------------+
 *              |  it has failed                                                          v
 *              +-----------------------------------------> GOES: chores: end of thread, pages;
 *                                                          dismiss it, if it asks for that
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "master_int.h"

/* The newest: an earlier one with this id may still be going. */
struct farm_member *farm_member_find(struct farm_master *master, int32_t dmi_id) {
  struct farm_member *member = master->members;
  while (member && member->dmi_id != dmi_id)
    member = member->next;
  return member;
}

struct farm_member *farm_member_of(struct farm_master *master, int64_t number) {
  struct farm_member *member = master->members;
  while (member && member->number != number)
    member = member->next;
  return member;
}

/* ---- Chores: in a thread of their own -------------------------------------------------------- */

static bool map(struct farm_start *start) {
  const int64_t places = start->places;
  return DMI_mmap(&start->order_addr, sizeof(struct farm_order), places, NULL) &&
         DMI_mmap(&start->report_addr, sizeof(struct farm_report), places, NULL) &&
         DMI_mmap(&start->part_addr, FARM_PART, places, NULL);
}

static void unmap(struct farm_member *member) {
  const int64_t addrs[] = {member->start.order_addr, member->start.report_addr,
                           member->start.part_addr, member->start_addr};
  for (size_t i = 0; i < sizeof(addrs) / sizeof(*addrs); i++)
    if (addrs[i]) (void)DMI_munmap(addrs[i], NULL);
}

/* Whoever maps pages owns them. */
static void *come(void *arg) {
  struct farm_member *member = arg;
  struct farm_start *start = &member->start;
  member->created = DMI_welcome(member->dmi_id) && map(start) &&
                    DMI_mmap(&member->start_addr, sizeof(*start), 1, NULL) &&
                    DMI_write(member->start_addr, sizeof(*start), start, DMI_PUT_WRITE, NULL) &&
                    DMI_create(&member->thread, member->dmi_id, member->start_addr, NULL);
  member->error = member->created ? DMI_OK : DMI_errno();
  (void)DMI_notify(FARM_NOTE(member->number, FARM_CHORE));
  return NULL;
}

static void *go(void *arg) {
  struct farm_member *member = arg;
  if (member->created && member->gone) (void)DMI_detach(member->thread, NULL);
  if (member->created && !member->gone) (void)DMI_join(member->thread, NULL, NULL);
  unmap(member);
  (void)DMI_notify(FARM_NOTE(member->number, FARM_CHORE));
  return NULL;
}

/* If there is no room for its pages the notice comes again. */
static void *dismiss(void *arg) {
  struct farm_member *member = arg;
  (void)DMI_goodbye(member->dmi_id);
  (void)DMI_notify(FARM_NOTE(member->number, FARM_CHORE));
  return NULL;
}

/* Without a thread this one does it. */
static void begin_chore(struct farm_member *member, void *(*chore)(void *)) {
  member->busy = pthread_create(&member->chore, NULL, chore, member) == 0;
  if (!member->busy) (void)chore(member);
}

/* ---- One comes ------------------------------------------------------------------------------- */

static int32_t places_of(const struct farm_master *master, const DMI_node_t *node) {
  const int32_t local = master->options->local;
  if (node->dmi_id == master->my_dmi_id && local >= 0) return local;
  if (node->core > FARM_PLACES) return FARM_PLACES;
  return node->core > 0 ? node->core : 1;
}

static struct farm_member *add_member(struct farm_master *master, const DMI_node_t *node,
                                      int32_t at_once) {
  struct farm_member *member = farm_alloc(sizeof(*member));
  const bool ahead =
      at_once > 0 && at_once <= FARM_PLACES / 2 && farm_plan_may_be_ahead(master->plan);
  const int32_t places = ahead ? 2 * at_once : at_once;
  *member = (struct farm_member){.number = ++master->numbers,
                                 .dmi_id = node->dmi_id,
                                 .host = farm_strdup(node->hostname),
                                 .start = {.worker = master->numbers,
                                           .places = places,
                                           .at_once = at_once,
                                           .bin_addr = master->bin_addr,
                                           .bin_size = master->bin_size},
                                 .places = farm_alloc((size_t)places * sizeof(*member->places)),
                                 .next = master->members};
  for (int32_t i = 0; i < places; i++) {
    struct farm_place *place = &member->places[i];
    place->state = FARM_PLACE_NEW;
    place->files[0] = place->files[1] = place->out = -1;
  }
  master->members = member;
  return member;
}

void farm_member_come(struct farm_master *master, const DMI_node_t *node) {
  const int32_t places = places_of(master, node);
  if (places == 0) { /* this process, which runs no tasks */
    (void)DMI_welcome(node->dmi_id);
  } else {
    begin_chore(add_member(master, node, places), come);
  }
}

/* ---- One goes -------------------------------------------------------------------------------- */

static void drop_all(struct farm_master *master, struct farm_member *member, enum farm_end end,
                     const char *status) {
  for (int32_t i = 0; i < member->start.places; i++)
    farm_place_drop(master, member, i, end, status);
  if (member->state == FARM_MEMBER_HERE) farm_plan_go(master->plan, (uint64_t)member->number);
}

/* Its thread has not ended, so its places are told to end. */
static void end_places(struct farm_master *master, struct farm_member *member) {
  for (int32_t i = 0; i < member->start.places; i++) {
    member->places[i].order.type = FARM_ORDER_END;
    farm_place_order(master, member, i);
  }
}

static void begin_going(struct farm_member *member) {
  member->state = FARM_MEMBER_GOES;
  member->gone = member->lost;
  begin_chore(member, go);
}

void farm_member_end(struct farm_master *master, struct farm_member *member) {
  member->ends = true;
  if (member->state != FARM_MEMBER_HERE) return; /* when its chore is done */
  end_places(master, member);
  drop_all(master, member, FARM_END_RETURNED, "returned");
  begin_going(member);
}

void farm_member_lost(struct farm_master *master, struct farm_member *member) {
  member->lost = true;
  if (member->state != FARM_MEMBER_HERE) return; /* its chore fails, soon */
  farm_progress_say(master->progress, "%s is lost; what it ran is run again", member->host);
  drop_all(master, member, FARM_END_LOST, "lost");
  begin_going(member);
}

void farm_member_leave(struct farm_master *master, const DMI_node_t *node) {
  struct farm_member *member = farm_member_find(master, node->dmi_id);
  if (!member) { /* its thread has ended before, or never began */
    member = add_member(master, node, 0);
    member->state = FARM_MEMBER_GOES;
    begin_chore(member, dismiss);
  } else {
    member->leaves = true;
    farm_member_end(master, member);
  }
}

static void free_member(struct farm_master *master, struct farm_member *member) {
  struct farm_member **at = &master->members;
  while (*at != member)
    at = &(*at)->next;
  *at = member->next;
  free(member->places);
  free(member->host);
  free(member);
}

/* ---- A chore is done ------------------------------------------------------------------------- */

static void has_come(struct farm_master *master, struct farm_member *member) {
  if (!member->error) {
    member->state = FARM_MEMBER_HERE;
    farm_plan_come(master->plan, (uint64_t)member->number);
    if (member->lost) {
      farm_member_lost(master, member);
    } else if (member->ends) {
      farm_member_end(master, member);
    } else {
      for (int32_t i = 0; i < member->start.places; i++)
        farm_place_hear(master, member, i); /* it may have reported meanwhile */
    }
    return;
  }
  if (member->error != DMI_EMEMBER && member->error != DMI_ELOST && !member->ends)
    farm_progress_say(master->progress, "%s gets no tasks: %s", member->host,
                      DMI_strerror(member->error));
  begin_going(member);
}

void farm_member_done(struct farm_master *master, struct farm_member *member) {
  if (member->busy) pthread_join(member->chore, NULL);
  member->busy = false;
  if (member->state == FARM_MEMBER_COMES) {
    has_come(master, member);
  } else if (member->leaves && !member->lost) {
    member->leaves = false;
    begin_chore(member, dismiss);
  } else {
    free_member(master, member);
  }
}

void farm_member_wait(struct farm_master *master) {
  while (master->members) {
    struct farm_member *member = master->members;
    if (member->busy) pthread_join(member->chore, NULL);
    free_member(master, member);
  }
}
