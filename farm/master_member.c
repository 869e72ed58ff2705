/*
 * master_member.c - workers: processes that were welcomed.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "master_int.h"

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

/* ---- One comes ------------------------------------------------------------------------------- */

static int32_t places_of(const struct farm_master *master, const DMI_node_t *node) {
  const int32_t local = master->options->local;
  if (node->dmi_id == master->my_dmi_id && local >= 0) return local;
  return node->core > 0 ? node->core : 1;
}

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

/* The pages that its worker writes are owned here, so that each report is read without a message.
 */
static bool prepare(struct farm_master *master, struct farm_member *member) {
  struct farm_start *start = &member->start;
  bool well = map(start) && DMI_mmap(&member->start_addr, sizeof(*start), 1, NULL) &&
              DMI_write(member->start_addr, sizeof(*start), start, DMI_EXCLUSIVE_WRITE, NULL);
  member->places = farm_alloc((size_t)start->places * sizeof(*member->places));
  for (int32_t i = 0; i < start->places; i++) {
    struct farm_place *place = &member->places[i];
    place->state = FARM_PLACE_NEW;
    place->files[0] = place->files[1] = place->out = -1;
    well = well && DMI_write(start->report_addr + i * (int64_t)sizeof(struct farm_report), 0, NULL,
                             DMI_EXCLUSIVE_WRITE, NULL);
  }
  farm_plan_come(master->plan, (uint64_t)member->number);
  return well && DMI_create(&member->thread, member->dmi_id, member->start_addr, NULL);
}

static void free_member(struct farm_master *master, struct farm_member *member) {
  struct farm_member **at = &master->members;
  while (*at != member)
    at = &(*at)->next;
  *at = member->next;
  farm_plan_go(master->plan, (uint64_t)member->number);
  for (int32_t i = 0; i < member->start.places; i++)
    if (member->places[i].writing) DMI_wait(&member->places[i].written, NULL);
  unmap(member);
  free(member->places);
  free(member->host);
  free(member);
}

void farm_member_come(struct farm_master *master, const DMI_node_t *node) {
  struct farm_member *member;
  const int32_t places = places_of(master, node);
  if (!DMI_welcome(node->dmi_id) || places == 0) return; /* lost meanwhile; or it runs no tasks */
  member = farm_alloc(sizeof(*member));
  *member = (struct farm_member){.number = ++master->numbers,
                                 .dmi_id = node->dmi_id,
                                 .host = farm_strdup(node->hostname),
                                 .start = {.worker = master->numbers,
                                           .places = places,
                                           .bin_addr = master->bin_addr,
                                           .bin_size = master->bin_size},
                                 .next = master->members};
  master->members = member;
  if (prepare(master, member)) return;
  if (DMI_errno() != DMI_EMEMBER && DMI_errno() != DMI_ELOST)
    farm_progress_say(master->progress, "%s gets no tasks: %s", member->host,
                      DMI_strerror(DMI_errno()));
  free_member(master, member);
}

/* ---- One goes -------------------------------------------------------------------------------- */

static void drop_all(struct farm_master *master, struct farm_member *member, enum farm_end end,
                     const char *status) {
  for (int32_t i = 0; i < member->start.places; i++)
    farm_place_drop(master, member, i, end, status);
}

void farm_member_end(struct farm_master *master, struct farm_member *member) {
  for (int32_t i = 0; i < member->start.places; i++) {
    member->places[i].order.type = FARM_ORDER_END;
    farm_place_order(member, i);
  }
  (void)DMI_join(member->thread, NULL, NULL); /* if it is lost, its notice comes */
  drop_all(master, member, FARM_END_RETURNED, "returned");
  free_member(master, member);
}

void farm_member_lost(struct farm_master *master, struct farm_member *member) {
  farm_progress_say(master->progress, "%s is lost; what it ran is run again", member->host);
  (void)DMI_detach(member->thread, NULL);
  drop_all(master, member, FARM_END_LOST, "lost");
  free_member(master, member);
}
