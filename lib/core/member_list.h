/*
 * member_list.h - growing lists of what membership keeps: of any elements, sets of uids, messages
 * that wait (member_state.c).
 */
#ifndef DMI_CORE_MEMBER_LIST_H
#define DMI_CORE_MEMBER_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "msg/msg.h"

#define DMI_LIST(type) \
  struct {             \
    type *at;          \
    uint32_t num;      \
    uint32_t capacity; \
  }

/* Appends a zeroed element; gives a pointer to it. */
#define DMI_LIST_ADD(list)                                                                      \
  ((list)->at = dmi_list_grow((list)->at, (list)->num, &(list)->capacity, sizeof(*(list)->at)), \
   &(list)->at[(list)->num++])

#define DMI_LIST_DROP(list, i)                                   \
  (memmove(&(list)->at[i], &(list)->at[(i) + 1],                 \
           ((list)->num - (size_t)(i)-1) * sizeof(*(list)->at)), \
   (list)->num--)

/* Makes space for element `num`, and zeroes it. */
void *dmi_list_grow(void *at, uint32_t num, uint32_t *capacity, size_t size);

struct dmi_uid_set {
  uint32_t *at; /* uids, or temporary ids (`strangers`) */
  uint32_t num;
  uint32_t capacity;
};

void dmi_uid_set_add(struct dmi_uid_set *uids, uint32_t id);  /* unless it is in the set */
bool dmi_uid_set_drop(struct dmi_uid_set *uids, uint32_t id); /* false: it was not in the set */
bool dmi_uid_set_has(const struct dmi_uid_set *uids, uint32_t id);
void dmi_uid_set_free(struct dmi_uid_set *uids);

/* Deferred messages, with references to their bodies. */
struct dmi_deferred {
  uint32_t from;
  struct dmi_msg msg;
};

struct dmi_deferred_list {
  struct dmi_deferred *at;
  uint32_t num;
  uint32_t capacity;
};

void dmi_deferred_add(struct dmi_deferred_list *list, uint32_t from, const struct dmi_msg *msg);
void dmi_deferred_drop(struct dmi_deferred_list *list, uint32_t i);
void dmi_deferred_free(struct dmi_deferred_list *list);

#endif
