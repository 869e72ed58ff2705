/*
 * history_dmi.c - is there an order of all operations on a page that explains every answer?
 *
 *   dmirun history_dmi OPS SEED     three processes; the third leaves at "leave now", another
 *                                   joins at "join now"; OPS: of each of the first threads
 *
 * Two threads in each process do random operations on few small pages, which one of them at least
 * is always in the middle of, and note when each began and ended (one clock: one machine).
 * DMI_main collects the notes and gives them to the checker of the simulator.  Threads go on while
 * the third process leaves and the fourth one joins.
 */
#include "multi.h"

#include "../sim/checker.h" /* history.t compiles it along */

#define PROCESSES 3
#define THREADS 8 /* two of each process; the last two in the one that joins later */
#define PAGES 4
#define PAGE 24 /* bytes */

/* One operation, as it is noted. */
struct note {
  int64_t call, back; /* ns */
  unsigned char in[2 * PAGE], out[PAGE];
  uint16_t in_len, out_len, out1_len;
  uint8_t page, kind, off, len, mode; /* enum hist_kind; mode of the API */
  uint64_t mask; /* not 0: by a group, of those bytes of the range whose bit is set */
  int8_t tag;
};

struct job {
  int64_t number, ops, seed;
  int64_t pages;
  int64_t stop;  /* 64-bit number: 1 when the long ones may end */
  int64_t notes; /* THREADS pages of `ops` notes */
  int64_t page_of_notes;
  int64_t report;
};

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  hist_user_function(page_ptr, size, out1_ptr, out1_size, out2_ptr, out2_size, in_ptr, in_size,
                     tag);
}

/* ---- One thread ---------------------------------------------------------------------------- */

static void draw(uint64_t *rng, struct note *note) {
  static const uint8_t kinds[] = {HIST_READ, HIST_READ, HIST_READ, HIST_WRITE, HIST_WRITE,
                                  HIST_CAS,  HIST_FAS,  HIST_FAD,  HIST_USER};
  memset(note, 0, sizeof(*note));
  note->kind = kinds[rng_below(rng, sizeof(kinds))];
  note->page = (uint8_t)(rng_below(rng, 3) ? 0 : rng_below(rng, PAGES)); /* one is hot */
  if (rng_below(rng, 3)) {
    note->len = PAGE; /* whole: an exclusive write of it moves no bytes */
  } else {
    note->off = (uint8_t)rng_below(rng, PAGE);
    note->len = (uint8_t)(1 + rng_below(rng, PAGE - note->off));
  }
  switch ((enum hist_kind)note->kind) {
    case HIST_READ:
      note->out_len = note->len;
      break;
    case HIST_WRITE:
      note->in_len = note->len;
      break;
    case HIST_CAS:
      note->in_len = (uint16_t)(2 * note->len);
      note->out_len = 1;
      break;
    case HIST_FAS:
      note->in_len = note->out_len = note->len;
      break;
    case HIST_FAD:
      note->off = (uint8_t)rng_below(rng, PAGE - 8 + 1);
      note->len = 8;
      note->in_len = note->out_len = 8;
      break;
    default:
      note->in_len = 5;
      note->out1_len = 3;
      note->out_len = (uint16_t)(1 + rng_below(rng, PAGE));
      note->tag = (int8_t)rng_below(rng, 100);
  }
  rng_fill(rng_next(rng), note->in, note->in_len);
  note->mode = (uint8_t)rng_below(rng, 6);
  if (note->kind > HIST_WRITE || note->len < 3 || rng_below(rng, 3)) return;
  note->mask = rng_next(rng) & rng_next(rng) & (((uint64_t)1 << note->len) - 1);
}

/* Each byte whose bit is set is an item. */
static void run_group(int64_t addr, struct note *note) {
  int64_t addrs[PAGE], sizes[PAGE], offs[PAGE];
  DMI_local_group_t group;
  int32_t num = 0;
  for (int i = 0; i < note->len; i++) {
    if (!(note->mask >> i & 1)) continue;
    addrs[num] = addr + i;
    sizes[num] = 1;
    offs[num++] = i;
  }
  OK(DMI_group_init(&group, addrs, sizes, offs, num));
  if (note->kind == HIST_READ) {
    OK(DMI_group_read(&group, note->out, NULL));
  } else {
    OK(DMI_group_write(&group, note->in, NULL));
  }
  OK(DMI_group_destroy(&group));
}

static void run(const struct job *job, struct note *note, const unsigned char *seen) {
  int64_t addr = job->pages + note->page * PAGE + note->off;
  int8_t mode = atomic_modes[note->mode % 2], flag;
  /* What this thread saw last: a compare-and-swap that has a chance. */
  if (note->kind == HIST_CAS) memcpy(note->in, seen + note->page * PAGE + note->off, note->len);
  note->call = now_ns();
  if (note->mask) {
    run_group(addr, note);
    note->back = now_ns();
    return;
  }
  switch ((enum hist_kind)note->kind) {
    case HIST_READ:
      OK(DMI_read(addr, note->len, note->out, read_modes[note->mode % 3], NULL));
      break;
    case HIST_WRITE:
      OK(DMI_write(addr, note->len, note->in, write_modes[note->mode % 2], NULL));
      break;
    case HIST_CAS:
      OK(DMI_cas(addr, note->len, note->in, note->in + note->len, &flag, mode, NULL));
      note->out[0] = (unsigned char)flag;
      break;
    case HIST_FAS:
      OK(DMI_fas(addr, note->len, note->in, note->out, mode, NULL));
      break;
    case HIST_FAD: {
      int64_t add, old = 0;
      memcpy(&add, note->in, 8);
      OK(DMI_fad(addr, add, &old, mode, NULL));
      memcpy(note->out, &old, 8);
      break;
    }
    default:
      OK(DMI_atomic(addr, note->len, note->in, note->out1_len, note->in + note->out1_len,
                    note->in_len - note->out1_len, note->out, note->out_len, note->tag, mode,
                    NULL));
  }
  note->back = now_ns();
}

/* Returns how many operations it noted. */
static int64_t work(const struct job *job) {
  uint64_t rng = rng_of((uint64_t)job->seed, (uint64_t)job->number, 0);
  bool guest = job->number / 2 >= PROCESSES - 1; /* of a process that leaves, or comes late */
  int64_t most = guest ? job->ops / 10 : job->ops, stop = 0, num = 0;
  struct note *notes = my_malloc((size_t)most * sizeof(*notes));
  unsigned char seen[PAGES * PAGE] = {0};
  while (num < most && !stop) {
    struct note *note = &notes[num++];
    draw(&rng, note);
    run(job, note, seen);
    if (note->kind == HIST_READ && !note->mask) {
      memcpy(seen + note->page * PAGE + note->off, note->out, note->len);
    }
    if (guest) continue;
    /* The second half is for the leave and the join, which take their time. */
    if (num > most / 2) look_again(INT64_MAX);
    if (num % 64 == 0) MUST(DMI_read(job->stop, 8, &stop, DMI_UPDATE_READ, NULL));
  }
  MUST(DMI_write(job->notes + job->number * job->page_of_notes, num * (int64_t)sizeof(*notes),
                 notes, DMI_PUT_WRITE, NULL));
  my_free(notes);
  return num;
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int64_t num;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  num = work(&job);
  check_report(job.report);
  return num;
}

/* ---- The verdict --------------------------------------------------------------------------- */

static const char *mode_name(const struct note *note) {
  static const char *const reads[] = {"INVALIDATE", "UPDATE", "GET"};
  if (note->mask) return "GROUP";
  if (note->kind == HIST_READ) return reads[note->mode % 3];
  return note->mode % 2 ? "PUT" : "EXCLUSIVE";
}

struct event {
  int64_t time;
  bool back;
  struct note *note;
  uint32_t thread;
};

static int by_event(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (int)x->back - (int)y->back; /* at the same time: nothing is known, so calls first */
}

/* What went on on the page shortly before the last operation of a witness returned. */
static void print_around(const struct hist *hist, const struct hist *witness) {
  uint64_t end = 0;
  struct hist part;
  for (uint32_t i = 0; i < witness->num; i++) {
    if (witness->op[i].back != HIST_OPEN && witness->op[i].back > end) end = witness->op[i].back;
  }
  hist_copy(&part, hist);
  part.num = 0;
  for (uint32_t i = 0; i < hist->num; i++) {
    if (hist->op[i].call <= end + 10 && hist->op[i].back + 80 >= end) {
      part.op[part.num++] = hist->op[i];
    }
  }
  say("around it:");
  hist_print(&part, stdout);
  hist_fini(&part);
}

static void check_one(int64_t page, struct note *const notes[], const int64_t num[]) {
  struct hist hist, small;
  struct check_stats stats = {0, 0};
  struct event *event;
  size_t total = 0, at = 0;
  uint32_t *place[THREADS];
  enum check_result result;
  for (int thread = 0; thread < THREADS; thread++) {
    place[thread] = my_malloc(((size_t)num[thread] + 1) * sizeof(uint32_t));
    for (int64_t i = 0; i < num[thread]; i++)
      total += notes[thread][i].page == page;
  }
  event = my_malloc((2 * total + 1) * sizeof(*event));
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    for (int64_t i = 0; i < num[thread]; i++) {
      struct note *note = &notes[thread][i];
      if (note->page != page) continue;
      event[at++] = (struct event){note->call, false, note, thread};
      event[at++] = (struct event){note->back, true, note, thread};
    }
  }
  qsort(event, at, sizeof(*event), by_event);
  hist_init(&hist, PAGE);
  for (size_t i = 0; i < at; i++) {
    struct note *note = event[i].note;
    uint32_t thread = event[i].thread, *mine = &place[thread][note - notes[thread]];
    if (event[i].back) {
      hist_back(&hist, *mine, i + 1, note->out);
    } else {
      struct hist_op op = {.call = i + 1,
                           .uid = thread / 2 + 1,
                           .thread = (uint8_t)(thread % 2),
                           .kind = note->kind,
                           .off = note->off,
                           .mask = note->mask,
                           .len = note->len,
                           .in_len = note->in_len,
                           .out_len = note->out_len,
                           .out1_len = note->out1_len,
                           .tag = note->tag,
                           .mode = mode_name(note)};
      *mine = hist_call(&hist, &op, note->in);
    }
  }
  result = check_page(&hist, &stats);
  say("page %" PRId64 ": %zu operations, %" PRIu64 " tries: %s", page, total, stats.tries,
      result == CHECK_OK         ? "an order"
      : result == CHECK_NO_ORDER ? "NO ORDER"
                                 : "GAVE UP");
  IS(result == CHECK_OK);
  if (result == CHECK_NO_ORDER) {
    check_shrink(&hist, &small);
    hist_print(&small, stdout);
    print_around(&hist, &small);
    fflush(stdout);
    hist_fini(&small);
  }
  hist_fini(&hist);
  for (int thread = 0; thread < THREADS; thread++)
    my_free(place[thread]);
  my_free(event);
}

/* ---- The program --------------------------------------------------------------------------- */

static void start(struct job *job, int64_t jobs, int32_t id, DMI_thread_t *threads) {
  for (int i = 0; i < 2; i++, job->number++) {
    int64_t addr = jobs + job->number * (int64_t)sizeof(*job);
    MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&threads[job->number], id, addr, NULL));
  }
}

void DMI_main(int argc, char **argv) {
  int32_t ids[PROCESSES];
  int64_t jobs, num[THREADS], one = 1, total = 0;
  struct job job = {.ops = argc > 1 ? atoll(argv[1]) : 1000, .seed = argc > 2 ? atoll(argv[2]) : 1};
  struct note *notes[THREADS];
  DMI_thread_t threads[THREADS];
  DMI_node_t node;
  gather(PROCESSES, ids);
  job.page_of_notes = job.ops * (int64_t)sizeof(struct note);
  MUST(DMI_mmap(&job.pages, PAGE, PAGES, NULL));
  MUST(DMI_mmap(&job.stop, 8, 1, NULL));
  MUST(DMI_mmap(&job.notes, job.page_of_notes, THREADS, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  MUST(DMI_mmap(&jobs, sizeof(job), THREADS, NULL));
  for (int i = 0; i < PROCESSES; i++)
    start(&job, jobs, ids[i], threads);
  for (int i = 4; i < 6; i++)
    MUST(DMI_join(threads[i], &num[i], NULL));
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.dmi_id, ids[2]);
  OK(DMI_goodbye(ids[2]));
  say("join now");
  MUST(DMI_poll(&node));
  OK(DMI_welcome(node.dmi_id));
  start(&job, jobs, node.dmi_id, threads);
  for (int i = 6; i < 8; i++)
    MUST(DMI_join(threads[i], &num[i], NULL));
  MUST(DMI_write(job.stop, 8, &one, DMI_PUT_WRITE, NULL));
  for (int i = 0; i < 4; i++) {
    MUST(DMI_join(threads[i], &num[i], NULL));
    say("thread %d was %s", i, num[i] < job.ops ? "there all the time" : "through early");
  }
  for (int i = 0; i < THREADS; i++) {
    notes[i] = my_malloc((size_t)job.page_of_notes);
    MUST(DMI_read(job.notes + i * job.page_of_notes, num[i] * (int64_t)sizeof(struct note),
                  notes[i], DMI_GET_READ, NULL));
    total += num[i];
  }
  for (int64_t page = 0; page < PAGES; page++)
    check_one(page, notes, num);
  for (int i = 0; i < THREADS; i++)
    my_free(notes[i]);
  say("history: %" PRId64 " operations", total);
  verdict("history", job.report);
}
