/*
 * config.c - reads the environment variables of option_table.h.
 */
#include "node/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/option_table.h"

/* Default value of dead_after with --survive.  Without it the program ends with the first lost
 * process, so machines that swap or are moved have more time. */
#define DEAD_AFTER_SURVIVE 5

enum type { TEXT, PORT, BYTES, INT, SECONDS, YES, LEVEL, ON_ERROR, SPIN };

struct row {
  const char *name;
  enum type type;
  size_t offset;          /* in struct dmi_config */
  uint64_t low, fallback; /* least value; value when it is not set */
  const char *option;     /* of dmirun; "": none */
};

#define ROW(field_, variable_, type_, least_, default_, option_, argument_, set_, help_) \
  {#variable_, type_, offsetof(struct dmi_config, field_), least_, (uint64_t)(default_), option_},
static const struct row rows[] = {DMI_OPTION_TABLE(ROW)};
#undef ROW

/* The largest value of each type that is a number. */
static const uint64_t highest[] = {[PORT] = UINT16_MAX, [BYTES] = UINT64_C(1) << 62,
                                   [INT] = INT32_MAX,   [SECONDS] = 999999999, /* as dmirun */
                                   [YES] = 1,           [SPIN] = DMI_LOOK_MOST_US};

static bool number(const struct row *row, const char *text, uint64_t *value, char *wrong) {
  uint64_t given, high = highest[row->type];
  char *end;
  errno = 0;
  given = strtoull(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && text[0] != '-' && given >= row->low &&
      given <= high) {
    *value = given;
    return true;
  }
  snprintf(wrong, DMI_CONFIG_WRONG, "%s=%s is not a number %sfrom %llu to %llu (dmirun: %s)",
           row->name, text, row->type == SECONDS ? "of seconds " : "", (unsigned long long)row->low,
           (unsigned long long)high, *row->option ? row->option : "no option");
  return false;
}

/* "print" or "abort". */
static bool on_error(const char *text, uint64_t *what, char *wrong) {
  if (strcmp(text, "print") == 0) {
    *what = DMI_ON_ERROR_PRINT;
  } else if (strcmp(text, "abort") == 0) {
    *what = DMI_ON_ERROR_ABORT;
  } else {
    snprintf(wrong, DMI_CONFIG_WRONG, "DMI_ON_ERROR=%s must be print or abort (dmirun: --on-error)",
             text);
    return false;
  }
  return true;
}

/* "auto", "off" or microseconds. */
static bool spin(const struct row *row, const char *text, uint64_t *value, char *wrong) {
  if (strcmp(text, "auto") == 0) {
    *value = (uint64_t)DMI_LOOK_AUTO;
    return true;
  }
  if (strcmp(text, "off") == 0) {
    *value = 0;
    return true;
  }
  if (number(row, text, value, wrong)) return true;
  snprintf(wrong, DMI_CONFIG_WRONG,
           "%s=%s must be auto, off or a number of microseconds from 0 to %d (dmirun: %s)",
           row->name, text, DMI_LOOK_MOST_US, row->option);
  return false;
}

static bool level(const struct row *row, const char *text, uint64_t *value, char *wrong) {
  enum dmi_log_level found;
  if (dmi_log_parse(text, &found)) {
    *value = found;
    return true;
  }
  snprintf(wrong, DMI_CONFIG_WRONG, "%s=%s is not one of off, error, warn, info, debug", row->name,
           text);
  return false;
}

static bool parse(const struct row *row, const char *text, uint64_t *value, char *wrong) {
  if (row->type == LEVEL) return level(row, text, value, wrong);
  if (row->type == ON_ERROR) return on_error(text, value, wrong);
  if (row->type == SPIN) return spin(row, text, value, wrong);
  return number(row, text, value, wrong);
}

static void store(void *field, enum type type, uint64_t value) {
  switch (type) {
    case PORT:
      *(uint16_t *)field = (uint16_t)value;
      break;
    case INT:
    case SECONDS:
    case SPIN:
      *(int *)field = (int)value; /* UINT64_MAX is -1 */
      break;
    case YES:
      *(bool *)field = value != 0;
      break;
    case LEVEL:
      *(enum dmi_log_level *)field = (enum dmi_log_level)value;
      break;
    case ON_ERROR:
      *(enum dmi_on_error *)field = (enum dmi_on_error)value;
      break;
    default:
      *(uint64_t *)field = value;
  }
}

bool dmi_config_read(struct dmi_config *config, const char *(*get)(void *arg, const char *name),
                     void *arg, char wrong[DMI_CONFIG_WRONG]) {
  char later[DMI_CONFIG_WRONG];
  bool good = true;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const struct row *row = &rows[i];
    const char *text = get(arg, row->name);
    void *field = (char *)config + row->offset;
    uint64_t value = row->fallback;
    if (text && !*text) text = NULL;
    if (row->type == TEXT) {
      *(const char **)field = text;
      continue;
    }
    if (text && !parse(row, text, &value, good ? wrong : later)) good = false;
    store(field, row->type, value);
    if (text && field == &config->dead_after) config->dead_after_set = true;
  }
  if (good && config->share > config->shares) {
    snprintf(wrong, DMI_CONFIG_WRONG, "DMI_SHARE=%d is more than DMI_SHARES=%d (dmirun: --share)",
             config->share, config->shares);
    good = false;
  }
  return good;
}

struct dmi_settings dmi_config_settings(const struct dmi_config *config, bool survive) {
  struct dmi_settings settings = {.survive = survive, .dead_after = (uint32_t)config->dead_after};
  if (survive && !config->dead_after_set) settings.dead_after = DEAD_AFTER_SURVIVE;
  settings.trust_refused = config->trust_refused;
  return settings;
}
