/*
 * seen_cost.c - what it takes to note for what a thread waits (base/doing.h) and for which page it
 * asks (access/faults.h), by the clock: prints a `name value unit min max` line for each.
 * test/bench/seen sets it beside calls that wait.
 *
 *   clock           a look at the clock
 *   noted_sleeping  what a call that sleeps until it is answered does for being seen
 *   noted_looking   one that looks before it sleeps: it takes the clock of the look's end, and the
 *                   look that of its begin, which is in this figure
 *   fault           what a message that asks for a page does
 */
#include "access/faults.h"
#include "access/mapping.h"
#include "base/clock.h"
#include "base/doing.h"
#include "bench.h"

#define COUNT 100000

static struct dmi_doings doings;
static volatile int64_t sink;

static void many_clock(void) {
  for (int i = 0; i < COUNT; i++)
    sink = dmi_clock_ns();
}

static void many_sleeping(void) {
  for (int i = 0; i < COUNT; i++) {
    dmi_doing_calls("DMI_read", &doings);
    dmi_doing_waited_looking(dmi_doing_waits_looking(&doings, DMI_DOING_PAGE, (uint64_t)i, 8, 0));
  }
}

static void many_looking(void) {
  for (int i = 0; i < COUNT; i++) {
    bool noted;
    dmi_doing_calls("DMI_read", &doings);
    noted = dmi_doing_waits_looking(&doings, DMI_DOING_PAGE, (uint64_t)i, 8, 0);
    dmi_doing_found(dmi_doing_began());
    dmi_doing_waited_looking(noted);
  }
}

static void many_faults(void) {
  static struct dmi_faults faults;
  static struct dmi_mapping mapping;
  static struct dmi_page page;
  struct dmi_page *const pages[] = {&page};
  const struct dmi_faults_bytes bytes[] = {{0, 8, false}};
  page.map = &mapping.map;
  for (int i = 0; i < COUNT; i++)
    dmi_faults_note(&faults, pages, bytes, 1);
}

static void measure(const char *name, void (*many)(void)) {
  figure_t figure = {.unit = "ns"};
  snprintf(figure.name, sizeof(figure.name), "%s", name);
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    many();
    if (batch >= 0) figure.values[batch] = (double)(now_ns() - start) / COUNT;
  }
  figure_print(&figure);
}

int main(void) {
  measure("clock", many_clock);
  measure("noted_sleeping", many_sleeping);
  measure("noted_looking", many_looking);
  measure("fault", many_faults);
  return 0;
}
