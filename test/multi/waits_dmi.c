/*
 * waits_dmi.c - threads that wait for what never comes, for waits.t.
 *
 *   dmirun waits_dmi message   a message of another rank; two processes
 *   dmirun waits_dmi ranks     the reset of another rank; two processes
 *   dmirun waits_dmi value     a value of a remote function
 *   dmirun waits_dmi servers   processes that run remote functions
 *   dmirun waits_dmi tasks     tasks of a farm
 *   dmirun waits_dmi phase     threads of DMI_rescale
 *   dmirun waits_dmi queue     many threads a lock
 */
#include <unistd.h>

#include "dmi_farm.h"
#include "dmi_remote.h"
#include "dmi_team.h"
#include "multi.h"

#define TASKS 5
#define DONE 2 /* of these */
#define QUEUE 100

/* What threads share. */
struct shared {
  int64_t mode, counter;
  DMI_team_t team;
  DMI_mutex_t mutex;
};

#define AT_FIELD(base, field) ((base) + (int64_t)offsetof(struct shared, field))

static void never(void) {
  for (;;)
    pause();
}

DMI_REMOTE(hangs) {
  (void)call;
  never();
}

int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job) {
  (void)out, (void)size, (void)job;
  if (task >= DONE) never();
  return DMI_TRUE;
}

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t addr) {
  (void)my_rank, (void)pnum, (void)addr;
  never();
  return DMI_TRUE;
}

int64_t DMI_thread(int64_t base) {
  DMI_local_team_t team;
  if (get_int64(base) == 'q') {
    MUST(DMI_fad(AT_FIELD(base, counter), 1, NULL, DMI_PUT_ATOMIC, NULL));
    MUST(DMI_mutex_lock(AT_FIELD(base, mutex)));
  } else {
    MUST(DMI_team_join(&team, AT_FIELD(base, team), 1));
    MUST(DMI_suspend());
  }
  return 0;
}

static void of_team(int64_t base, bool resets) {
  DMI_thread_t thread;
  DMI_local_team_t team;
  int32_t ids[2];
  int64_t value;
  gather(2, ids);
  MUST(DMI_team_init(AT_FIELD(base, team), 2));
  MUST(DMI_create(&thread, ids[1], base, NULL));
  MUST(DMI_team_join(&team, AT_FIELD(base, team), 0));
  if (resets) {
    MUST(DMI_team_reset(&team)); /* line: ranks */
  } else {
    MUST(DMI_team_recv(&team, 1, &value, sizeof(value), NULL, NULL)); /* line: message */
  }
}

static void of_remote(bool opens) {
  const DMI_client_options_t options = {.processes = opens ? 3 : 1};
  DMI_client_t *client;
  DMI_data_t data;
  int64_t value;
  MUST(DMI_client_open(&client, &options)); /* line: servers */
  MUST(DMI_call(client, hangs, DMI_OUT(&data, 8)));
  MUST(DMI_data_read(client, data, &value, 0, 8, NULL)); /* line: value */
}

static void of_farm(void) {
  DMI_farm_t farm = {.tasks = TASKS, .threads = 1};
  MUST(DMI_farm_run(&farm)); /* line: tasks */
}

static void of_lock(int64_t base) {
  DMI_thread_t thread;
  int32_t id;
  gather(1, &id);
  MUST(DMI_mutex_init(AT_FIELD(base, mutex)));
  MUST(DMI_mutex_lock(AT_FIELD(base, mutex))); /* line: holds */
  for (int i = 0; i < QUEUE; i++)
    MUST(DMI_create(&thread, id, base, NULL));
  wait_for(AT_FIELD(base, counter), QUEUE);
  say("queued");
  never();
}

void DMI_main(int argc, char **argv) {
  int64_t base, mode = argc > 1 ? argv[1][0] : 'q';
  MUST(DMI_mmap(&base, 4096, 1, NULL));
  put_int64(base, mode);
  say("begins");
  if (mode == 'm' || mode == 'r') of_team(base, mode == 'r');
  if (mode == 'v' || mode == 's') of_remote(mode == 's');
  if (mode == 't') of_farm();
  if (mode == 'q') of_lock(base);
  if (mode == 'p') MUST(DMI_rescale(0, 1, 2)); /* line: scale */
}
