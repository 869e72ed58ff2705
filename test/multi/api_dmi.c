/*
 * api_dmi.c - every call of the memory chapters with every mode, every value checked.
 *
 *   dmirun api_dmi PROCESSES POOL      POOL: the -s that all processes were given, in bytes
 *
 * DMI_main goes through the tests; parts of them run in threads in all processes.  A mapping under
 * test has a model: what an array of bytes in local memory would hold after the same writes.
 */
#include "multi.h"

#define PROCESSES_MAX 8
#define THREADS_EACH 2

/* What a thread is to do: at the address it gets. */
struct job {
  int64_t what; /* enum what */
  int64_t addr; /* of the mapping it is about */
  int64_t page_size, page_num;
  int64_t number; /* of this thread */
  int64_t from, to;
  int64_t report; /* for check_report */
  int64_t out;    /* where results go */
};

enum what { WHO, OPS, FAD, CAS, FAS, ATOMIC, HASH, FAR };

static int32_t processes, ids[PROCESSES_MAX];
static int64_t report, pool;

/* ---- DMI_function -------------------------------------------------------------------------- */

enum tag { TAG_ADD = 0, TAG_SIZES = 1, TAG_CALLS = 2, TAG_REVERSE = 127 };

/* Calls what a DMI_function must not call; how many calls said so. */
static int64_t forbidden_calls(int64_t addr) {
  int64_t value = 5, refused = 0;
  int32_t number = -1;
  int8_t flag;
  DMI_node_t node;
  DMI_thread_t thread;
  DMI_local_status_t status;
  DMI_local_group_t group;
  DMI_local_rwset_t rwset;
  memset(&thread, 0, sizeof(thread));
#define REFUSED(call) refused += (call) == DMI_FALSE && DMI_errno() == DMI_EINFUNC
  REFUSED(DMI_rank(&number));
  REFUSED(DMI_nodes(&node, &number, 1));
  REFUSED(DMI_peek(&node, &number));
  REFUSED(DMI_poll(&node));
  REFUSED(DMI_welcome(0));
  REFUSED(DMI_goodbye(0));
  REFUSED(DMI_create(&thread, 0, 0, NULL));
  REFUSED(DMI_self(&thread));
  REFUSED(DMI_mmap(&value, 8, 1, NULL));
  REFUSED(DMI_munmap(addr, NULL));
  REFUSED(DMI_read(addr, 8, &value, DMI_GET_READ, NULL));
  REFUSED(DMI_read(addr, 8, &value, DMI_GET_READ, &status));
  REFUSED(DMI_write(addr, 8, &value, DMI_PUT_WRITE, NULL));
  REFUSED(DMI_group_init(&group, NULL, NULL, NULL, 0));
  REFUSED(DMI_group_destroy(&group));
  REFUSED(DMI_rwset_init(addr, 1, 8, 1));
  REFUSED(DMI_rwset_destroy(addr));
  REFUSED(DMI_rwset_decompose(addr, 0, NULL, 0));
  REFUSED(DMI_local_rwset_init(&rwset, addr, 0, NULL, 0));
  REFUSED(DMI_local_rwset_destroy(&rwset));
  REFUSED(DMI_fad(addr, 1, &value, DMI_PUT_ATOMIC, NULL));
  REFUSED(DMI_fas(addr, 8, &value, &value, DMI_PUT_ATOMIC, NULL));
  REFUSED(DMI_cas(addr, 8, &value, &value, &flag, DMI_PUT_ATOMIC, NULL));
  REFUSED(DMI_atomic(addr, 8, NULL, 0, NULL, 0, NULL, 0, 0, DMI_PUT_ATOMIC, NULL));
#undef REFUSED
  return refused;
}
#define FORBIDDEN_CALLS 24

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  int64_t value, add, factor, answer[4];
  unsigned char *bytes = page_ptr;
  switch ((enum tag)tag) {
    case TAG_ADD: /* value := value * factor + add; answers the old value */
      memcpy(&value, page_ptr, sizeof(value));
      memcpy(&add, out1_ptr, sizeof(add));
      memcpy(&factor, out2_ptr, sizeof(factor));
      memcpy(in_ptr, &value, sizeof(value));
      value = value * factor + add;
      memcpy(page_ptr, &value, sizeof(value));
      break;
    case TAG_SIZES:
      for (int64_t i = 0; i < in_size; i++) {
        if (((unsigned char *)in_ptr)[i]) abort(); /* promised to be zeros */
      }
      answer[0] = size;
      answer[1] = out1_size;
      answer[2] = out2_size;
      answer[3] = in_size;
      memcpy(in_ptr, answer, sizeof(answer));
      break;
    case TAG_CALLS:
      memcpy(&value, out1_ptr, sizeof(value));
      value = forbidden_calls(value);
      memcpy(in_ptr, &value, sizeof(value));
      break;
    case TAG_REVERSE:
      for (int64_t i = 0; i < size / 2; i++) {
        unsigned char byte = bytes[i];
        bytes[i] = bytes[size - 1 - i];
        bytes[size - 1 - i] = byte;
      }
      break;
    default:
      abort();
  }
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void start(struct job *job, int64_t jobs, int32_t at, int64_t number, DMI_thread_t *thread) {
  int64_t addr = jobs + number * (int64_t)sizeof(*job);
  job->number = number;
  job->report = report;
  MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(thread, ids[at], addr, NULL));
}

/* One thread in process `at`; waits for it; its answer. */
static int64_t run_at(struct job *job, int32_t at) {
  int64_t jobs, value = -1;
  DMI_thread_t thread;
  MUST(DMI_mmap(&jobs, sizeof(*job), 1, NULL));
  start(job, jobs, at, 0, &thread);
  MUST(DMI_join(thread, &value, NULL));
  MUST(DMI_munmap(jobs, NULL));
  return value;
}

/* Two threads in every process at once; the sum of their answers. */
static int64_t run_everywhere(struct job *job) {
  int64_t jobs, value, sum = 0;
  int32_t num = THREADS_EACH * processes;
  DMI_thread_t threads[THREADS_EACH * PROCESSES_MAX];
  MUST(DMI_mmap(&jobs, sizeof(*job), num, NULL));
  for (int32_t i = 0; i < num; i++)
    start(job, jobs, i % processes, i, &threads[i]);
  for (int32_t i = 0; i < num; i++) {
    MUST(DMI_join(threads[i], &value, NULL));
    sum += value;
  }
  MUST(DMI_munmap(jobs, NULL));
  return sum;
}

/* ---- Processes ----------------------------------------------------------------------------- */

static int64_t rank_here(void) {
  int32_t id = -1;
  OK(DMI_rank(&id));
  return id;
}

static void test_processes(void) {
  DMI_node_t nodes[PROCESSES_MAX + 1];
  struct job job = {.what = WHO};
  int32_t num = -1;
  EQ(rank_here(), ids[0]);
  for (int32_t i = 0; i < processes; i++)
    EQ(run_at(&job, i), ids[i]);
  OK(DMI_nodes(nodes, &num, PROCESSES_MAX + 1));
  EQ(num, processes);
  for (int32_t i = 0; i < num; i++) {
    int32_t found = 0;
    for (int32_t k = 0; k < processes; k++)
      found += ids[k] == nodes[i].dmi_id;
    EQ(found, 1);
    for (int32_t k = 0; k < i; k++)
      IS(nodes[k].dmi_id != nodes[i].dmi_id);
    EQ(nodes[i].state, DMI_OPENED);
    EQ(nodes[i].memory, pool);
    IS(nodes[i].core >= 1);
    IS(nodes[i].hostname[0] != '\0');
    IS(memchr(nodes[i].hostname, '\0', IP_SIZE) != NULL);
  }
  memset(&nodes[1], 0x5a, sizeof(nodes[1]));
  OK(DMI_nodes(nodes, &num, 1));
  EQ(num, 1);
  EQ(nodes[1].dmi_id, 0x5a5a5a5a); /* not touched */
  OK(DMI_nodes(NULL, &num, 0));
  EQ(num, 0);
  num = 7;
  OK(DMI_peek(nodes, &num));
  EQ(num, DMI_FALSE); /* all notices are taken */
}

/* ---- Random reads and writes against a model ----------------------------------------------- */

/*
 * Batch `b` of operations on a mapping is run by process b % processes, but every process can
 * follow what it did to the contents, because it depends on page size, page count and b only.
 */
#define BATCH_OPS 24
#define FLIGHT 6 /* asynchronous ones at a time */

struct model {
  int64_t addr, size, page_size;
  int64_t batch; /* the contents are those before this batch */
  unsigned char *bytes, *buf;
};

static struct model model;

static void model_begin(int64_t addr, int64_t page_size, int64_t page_num) {
  if (model.addr == addr) return;
  free(model.bytes);
  free(model.buf);
  model.addr = addr;
  model.page_size = page_size;
  model.size = page_size * page_num;
  model.batch = 0;
  model.bytes = calloc(1, (size_t)model.size);
  model.buf = malloc((size_t)model.size);
  if (!model.bytes || !model.buf) abort();
}

/* A range: bytes, parts of pages, whole pages, many pages, everything, nothing. */
static void pick(uint64_t *rng, int64_t *off, int64_t *size) {
  uint64_t total = (uint64_t)model.size, page = (uint64_t)model.page_size;
  uint64_t pages = total / page, first = rng_below(rng, pages), num;
  switch (rng_below(rng, 8)) {
    case 0: /* one page or less */
    case 1:
      *off = (int64_t)rng_below(rng, page);
      *size = (int64_t)rng_below(rng, page - (uint64_t)*off + 1);
      *off += (int64_t)(first * page);
      break;
    case 2: /* a whole page */
      *off = (int64_t)(first * page);
      *size = (int64_t)page;
      break;
    case 3: /* several whole pages */
      num = 1 + rng_below(rng, pages - first);
      *off = (int64_t)(first * page);
      *size = (int64_t)(num * page);
      break;
    case 4: /* across a page border */
      *off = (int64_t)(first * page + page - 1);
      *size = *off + 2 <= model.size ? 2 : 1;
      break;
    case 5:
      *off = 0;
      *size = rng_below(rng, 4) ? 0 : model.size;
      break;
    default: /* anything */
      *off = (int64_t)rng_below(rng, total);
      *size = (int64_t)rng_below(rng, total - (uint64_t)*off + 1);
  }
}

/* One synchronous operation.  `real`: in global memory too, else in the model only. */
static void op_one(uint64_t *rng, bool real) {
  int64_t off, size;
  int8_t read_mode = any_read(rng), write_mode = any_write(rng);
  bool write = rng_below(rng, 2);
  uint64_t seed = rng_next(rng);
  pick(rng, &off, &size);
  if (!write) {
    if (!real) return;
    memset(model.buf, 0xee, (size_t)size);
    OK(DMI_read(model.addr + off, size, model.buf, read_mode, NULL));
    SAME(model.buf, model.bytes + off, size);
    return;
  }
  rng_fill(seed, model.buf, (uint64_t)size);
  if (seed % 8 == 0) memset(model.buf, 0, (size_t)size);
  if (real) OK(DMI_write(model.addr + off, size, model.buf, write_mode, NULL));
  memcpy(model.bytes + off, model.buf, (size_t)size);
}

/* Asynchronous ones, several in flight at a time, on ranges that do not overlap. */
static void op_flight(uint64_t *rng, bool real) {
  DMI_local_status_t status[FLIGHT];
  unsigned char *read_buf[FLIGHT] = {NULL};
  int64_t off[FLIGHT], size[FLIGHT], slice = model.size / FLIGHT;
  int32_t ret;
  if (!slice) return;
  for (int i = 0; i < FLIGHT; i++) {
    int8_t read_mode = any_read(rng), write_mode = any_write(rng);
    bool write = rng_below(rng, 2);
    uint64_t seed = rng_next(rng);
    off[i] = i * slice + (int64_t)rng_below(rng, (uint64_t)slice);
    size[i] = (int64_t)rng_below(rng, (uint64_t)((i + 1) * slice - off[i]) + 1);
    if (write) {
      rng_fill(seed, model.buf, (uint64_t)size[i]);
      memcpy(model.bytes + off[i], model.buf, (size_t)size[i]);
    }
    if (!real) continue;
    if (write) {
      OK(DMI_write(model.addr + off[i], size[i], model.buf, write_mode, &status[i]));
      memset(model.buf, 0xdd, (size_t)size[i]); /* the buffer is ours again */
    } else {
      read_buf[i] = malloc((size_t)size[i] + 1);
      if (!read_buf[i]) abort();
      OK(DMI_read(model.addr + off[i], size[i], read_buf[i], read_mode, &status[i]));
    }
  }
  for (int i = 0; real && i < FLIGHT; i++) {
    ret = 77;
    if (i % 2) {
      for (int64_t looks = 0; !DMI_check(&status[i], &ret); looks++)
        look_again(looks);
    } else {
      DMI_wait(&status[i], &ret);
    }
    EQ(ret, DMI_TRUE);
    ret = 77;
    DMI_wait(&status[i], &ret); /* twice */
    EQ(ret, DMI_TRUE);
    EQ(DMI_check(&status[i], NULL), DMI_TRUE);
    DMI_wait(&status[i], NULL);
    if (read_buf[i]) SAME(read_buf[i], model.bytes + off[i], size[i]);
    free(read_buf[i]);
  }
}

/* Brings the model, and with `real` global memory, past one batch. */
static void batch(bool real) {
  uint64_t rng = rng_of((uint64_t)model.page_size, (uint64_t)model.size, (uint64_t)model.batch);
  for (int i = 0; i < BATCH_OPS; i++) {
    if (rng_below(&rng, 6) == 0) {
      op_flight(&rng, real);
    } else {
      op_one(&rng, real);
    }
  }
  model.batch++;
}

/* Threads of one process take turns, so the model needs no lock. */
static void job_ops(const struct job *job) {
  model_begin(job->addr, job->page_size, job->page_num);
  while (model.batch < job->from)
    batch(false);
  batch(true);
}

static void test_model(int64_t page_size, int64_t page_num, int64_t batches) {
  struct job job = {.what = OPS, .page_size = page_size, .page_num = page_num};
  OK(DMI_mmap(&job.addr, page_size, page_num, NULL));
  IS(job.addr != DMI_NULL);
  for (job.from = 0; job.from < batches; job.from++) {
    int32_t at = (int32_t)(job.from % processes);
    if (at == 0) {
      job_ops(&job);
    } else {
      EQ(run_at(&job, at), 0);
    }
  }
  while (model.batch < batches)
    batch(false);
  for (int i = 0; i < 3; i++) {
    OK(DMI_read(job.addr, model.size, model.buf, read_modes[i], NULL));
    SAME(model.buf, model.bytes, model.size);
  }
  OK(DMI_munmap(job.addr, NULL));
}

/* ---- Zeros, edges, sizes ------------------------------------------------------------------- */

static void test_edges(void) {
  unsigned char buf[300], zeros[300] = {0}, want[300];
  int64_t addr, other;
  DMI_local_status_t status;
  int32_t ret = 0;
  OK(DMI_mmap(&addr, 100, 3, NULL));
  for (int i = 0; i < 3; i++) {
    memset(buf, 1, sizeof(buf));
    OK(DMI_read(addr, 300, buf, read_modes[i], NULL));
    SAME(buf, zeros, 300);
    OK(DMI_read(addr + 300, 0, buf, read_modes[i], NULL));
    OK(DMI_read(addr, 0, NULL, read_modes[i], NULL));
    OK(DMI_read(addr, 0, NULL, read_modes[i], &status));
    DMI_wait(&status, &ret);
    EQ(ret, DMI_TRUE);
  }
  for (int i = 0; i < 2; i++) {
    OK(DMI_write(addr + 100, 0, NULL, write_modes[i], NULL));
    OK(DMI_write(addr, 0, NULL, write_modes[i], &status));
    DMI_wait(&status, &ret);
    EQ(ret, DMI_TRUE);
  }
  /* A write touches its range and nothing else; the ends of the mapping are usable. */
  memset(want, 0, sizeof(want));
  want[0] = want[99] = want[100] = want[299] = 9;
  OK(DMI_write(addr, 1, want, DMI_PUT_WRITE, NULL));
  OK(DMI_write(addr + 99, 2, want + 99, DMI_EXCLUSIVE_WRITE, NULL));
  OK(DMI_write(addr + 299, 1, want + 299, DMI_PUT_WRITE, NULL));
  OK(DMI_read(addr, 300, buf, DMI_GET_READ, NULL));
  SAME(buf, want, 300);
  /* Mappings are apart. */
  OK(DMI_mmap(&other, 100, 3, &status));
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  IS(other >= addr + 300 || other + 300 <= addr);
  OK(DMI_read(other, 300, buf, DMI_INVALIDATE_READ, NULL));
  SAME(buf, zeros, 300);
  OK(DMI_munmap(other, &status));
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  FAILS(DMI_read(other, 1, buf, DMI_GET_READ, NULL), DMI_EADDR);
  OK(DMI_munmap(addr, NULL));
  /* A page size of the whole 62 bits is only refused at 2^62. */
  OK(DMI_mmap(&addr, 4096, ((int64_t)1 << 50) - 1, NULL));
  OK(DMI_write(addr + (((int64_t)1 << 62) - 2 * 4096), 300, zeros, DMI_PUT_WRITE, NULL));
  OK(DMI_munmap(addr, NULL));
}

/* Messages about pages that this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_sent(const struct dmi_access *access, int type);
#define MSG_LAST 15

static uint64_t sent_all(void) {
  uint64_t sum = 0;
  for (int type = 1; type <= MSG_LAST; type++)
    sum += dmi_access_sent(dmi_runtime_access(), type);
  return sum;
}

/* An EXCLUSIVE write of nothing fetches the page of its address, and no other one. */
static void test_fetch(void) {
  struct job job = {.what = HASH, .page_size = 104, .to = 2}; /* EXCLUSIVE */
  unsigned char bytes[2 * 104], byte;
  DMI_local_status_t status;
  int64_t addr, value;
  int32_t ret = 0;
  OK(DMI_mmap(&addr, job.page_size, 2, NULL));
  rng_fill((uint64_t)job.to, bytes, 104);
  memcpy(bytes + 104, bytes, 104);
  for (int i = 0; i < 8; i++) {
    uint64_t before;
    for (job.addr = addr; job.addr <= addr + 104; job.addr += 104)
      run_at(&job, processes - 1);
    if (i % 2) {
      OK(DMI_write(addr + 104 + i, 0, i < 4 ? NULL : bytes, DMI_EXCLUSIVE_WRITE, &status));
      DMI_wait(&status, &ret);
      EQ(ret, DMI_TRUE);
    } else {
      OK(DMI_write(addr + 104 + i, 0, i < 4 ? NULL : bytes, DMI_EXCLUSIVE_WRITE, NULL));
    }
    before = sent_all();
    for (int j = 0; j < 3; j++) { /* all of this takes place here */
      OK(DMI_read(addr + 104 + j, 1, &byte, read_modes[j], NULL));
      EQ(byte, bytes[104 + j]);
      OK(DMI_write(addr + 104 + j, 1, &byte, write_modes[j % 2], NULL));
      OK(DMI_fad(addr + 112, 0, &value, atomic_modes[j % 2], NULL));
      OK(DMI_write(addr + 104, 0, NULL, DMI_EXCLUSIVE_WRITE, NULL));
    }
    EQ(sent_all(), before);
    OK(DMI_read(addr, 1, &byte, DMI_GET_READ, NULL)); /* the other page is where it was */
    EQ(sent_all(), before + (processes > 1));
    OK(DMI_read(addr, 208, bytes, DMI_GET_READ, NULL));
    SAME(bytes, bytes + 104, 104);
  }
  OK(DMI_write(addr + 208, 0, NULL, DMI_EXCLUSIVE_WRITE, NULL)); /* the end */
  OK(DMI_munmap(addr, NULL));
  for (int i = 0; i < 2; i++) {
    const int64_t wrong = i ? addr : DMI_NULL;
    FAILS(DMI_write(wrong, 0, NULL, DMI_EXCLUSIVE_WRITE, NULL), DMI_EADDR);
    if (DMI_write(wrong, 0, NULL, DMI_EXCLUSIVE_WRITE, &status)) DMI_wait(&status, &ret);
    EQ(DMI_errno(), DMI_EADDR);
    OK(DMI_write(wrong, 0, NULL, DMI_PUT_WRITE, NULL));
  }
}

/* 2^30 pages of 8 bytes, few of them touched. */
static int64_t far_value(int64_t page) {
  return page * 2654435761 + 1;
}

static int64_t far_page(int64_t i) {
  int64_t pages = (int64_t)1 << 30;
  return i == 0 ? 0 : i == 1 ? pages - 1 : (int64_t)(rng_of(1, 2, (uint64_t)i) % (uint64_t)pages);
}

static void job_far(const struct job *job) {
  for (int64_t i = 0; i < job->to; i++) {
    int64_t value = -1, page = far_page(i);
    OK(DMI_read(job->addr + 8 * page, 8, &value, read_modes[i % 3], NULL));
    EQ(value, far_value(page));
  }
}

static void test_far(void) {
  struct job job = {.what = FAR, .to = scaled(1000)};
  int64_t value, run[4096 / 8];
  OK(DMI_mmap(&job.addr, 8, (int64_t)1 << 30, NULL));
  for (int64_t i = 0; i < job.to; i++) {
    value = far_value(far_page(i));
    OK(DMI_write(job.addr + 8 * far_page(i), 8, &value, write_modes[i % 2], NULL));
  }
  EQ(run_everywhere(&job), 0);
  /* One access over hundreds of pages, from the middle of one to the middle of another. */
  for (size_t i = 0; i < sizeof(run) / 8; i++)
    run[i] = far_value((int64_t)i);
  OK(DMI_write(job.addr + 4, sizeof(run), run, DMI_PUT_WRITE, NULL));
  memset(run, 0, sizeof(run));
  OK(DMI_read(job.addr + 4, sizeof(run), run, DMI_UPDATE_READ, NULL));
  for (size_t i = 0; i < sizeof(run) / 8; i++)
    EQ(run[i], far_value((int64_t)i));
  OK(DMI_munmap(job.addr, NULL));
}

/* ---- A big page ---------------------------------------------------------------------------- */

static uint64_t hash(const unsigned char *bytes, int64_t size) {
  uint64_t sum = 0;
  for (int64_t i = 0; i + 8 <= size; i += 8) {
    uint64_t value;
    memcpy(&value, bytes + i, 8);
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
  }
  return sum;
}

/* Reads it whole in mode `number`; or, with to > 0, writes it first. */
static int64_t job_hash(const struct job *job) {
  unsigned char *buf = malloc((size_t)job->page_size);
  uint64_t sum;
  if (!buf) abort();
  if (job->to) {
    rng_fill((uint64_t)job->to, buf, (uint64_t)job->page_size);
    OK(DMI_write(job->addr, job->page_size, buf, write_modes[job->to % 2], NULL));
  }
  OK(DMI_read(job->addr, job->page_size, buf, read_modes[job->from], NULL));
  sum = hash(buf, job->page_size);
  free(buf);
  return (int64_t)sum;
}

static void test_big(void) {
  struct job job = {.what = HASH, .page_size = scaled(64) << 20};
  unsigned char *buf = malloc((size_t)job.page_size), mark[3] = {7, 8, 9};
  int64_t want;
  if (!buf) abort();
  OK(DMI_mmap(&job.addr, job.page_size, 2, NULL));
  for (job.to = 1; job.to <= 4; job.to++) {
    int32_t writer = (int32_t)((job.to + 1) % processes);
    struct job read = job;
    rng_fill((uint64_t)job.to, buf, (uint64_t)job.page_size);
    want = (int64_t)hash(buf, job.page_size);
    EQ(run_at(&job, writer), want);
    read.to = 0;
    for (int32_t at = 0; at < processes; at++) {
      read.from = (at + job.to) % 3;
      EQ(run_at(&read, at), want);
    }
  }
  /* A few bytes in the middle change under the copies. */
  OK(DMI_write(job.addr + job.page_size / 2, 3, mark, DMI_PUT_WRITE, NULL));
  memcpy(buf + job.page_size / 2, mark, 3);
  want = (int64_t)hash(buf, job.page_size);
  job.to = 0;
  for (int32_t at = 0; at < processes; at++) {
    job.from = at % 3;
    EQ(run_at(&job, at), want);
  }
  OK(DMI_munmap(job.addr, NULL));
  free(buf);
}

/* ---- Read-modify-write --------------------------------------------------------------------- */

#define RMW_PAGE 64 /* bytes; the number under test is at an odd address in it */
#define RMW_AT 13

static void job_fad(const struct job *job) {
  int64_t old, last = -1;
  for (int64_t i = 0; i < job->to; i++) {
    int8_t mode = atomic_modes[(i + job->number) % 2];
    OK(DMI_fad(job->addr, 3, &old, mode, NULL));
    IS(old > last && old % 3 == 0);
    last = old;
    if (i % 4 == 0) OK(DMI_fad(job->addr + 8, -1, NULL, mode, NULL));
  }
}

static void job_cas(const struct job *job) {
  int64_t done = 0, value = 0, next;
  int8_t flag;
  while (done < job->to) {
    next = value + 1;
    flag = 99;
    OK(DMI_cas(job->addr, 8, &value, &next, &flag, atomic_modes[value / 3 % 2], NULL));
    IS(flag == DMI_TRUE || flag == DMI_FALSE);
    done += flag == DMI_TRUE;
    OK(DMI_read(job->addr, 8, &value, read_modes[done % 3], NULL));
  }
}

/* Each puts in numbers of its own and takes out what was there; returns their difference. */
static int64_t job_fas(const struct job *job) {
  int64_t put, got, sum = 0;
  for (int64_t i = 0; i < job->to; i++) {
    put = (int64_t)(rng_of(9, (uint64_t)job->number, (uint64_t)i) >> 8);
    got = -1;
    OK(DMI_fas(job->addr, 8, &put, &got, atomic_modes[i % 2], NULL));
    sum += put - got;
  }
  return sum;
}

static void job_atomic(const struct job *job) {
  int64_t one = 1, factor = 1, old, last = -1;
  for (int64_t i = 0; i < job->to; i++) {
    OK(DMI_atomic(job->addr, 8, &one, 8, &factor, 8, &old, 8, TAG_ADD,
                  atomic_modes[(i / 2 + job->number) % 2], NULL));
    IS(old > last);
    last = old;
  }
}

static void test_rmw_shared(void) {
  struct job job = {.page_size = RMW_PAGE, .page_num = 1, .to = scaled(300)};
  int64_t threads = THREADS_EACH * processes, value[2], sum;
  OK(DMI_mmap(&job.addr, RMW_PAGE, 1, NULL));
  job.addr += RMW_AT;

  job.what = FAD;
  EQ(run_everywhere(&job), 0);
  OK(DMI_read(job.addr, 16, value, DMI_GET_READ, NULL));
  EQ(value[0], 3 * threads * job.to);
  EQ(value[1], -threads * ((job.to + 3) / 4));

  memset(value, 0, sizeof(value));
  OK(DMI_write(job.addr, 16, value, DMI_PUT_WRITE, NULL));
  job.what = CAS;
  EQ(run_everywhere(&job), 0);
  OK(DMI_read(job.addr, 8, value, DMI_GET_READ, NULL));
  EQ(value[0], threads * job.to);

  value[0] = 0;
  OK(DMI_write(job.addr, 8, value, DMI_EXCLUSIVE_WRITE, NULL));
  job.what = FAS;
  sum = run_everywhere(&job);
  OK(DMI_read(job.addr, 8, value, DMI_GET_READ, NULL));
  EQ(value[0], sum); /* everything that was put in came out again, except what is there now */

  value[0] = 0;
  OK(DMI_write(job.addr, 8, value, DMI_EXCLUSIVE_WRITE, NULL));
  job.what = ATOMIC;
  EQ(run_everywhere(&job), 0);
  OK(DMI_read(job.addr, 8, value, DMI_GET_READ, NULL));
  EQ(value[0], threads * job.to);
  OK(DMI_munmap(job.addr - RMW_AT, NULL));
}

/* One call of each kind, with all results checked. */
static void test_rmw_calls(int8_t mode) {
  unsigned char page[RMW_PAGE], want[RMW_PAGE], buf[RMW_PAGE], other[RMW_PAGE];
  int64_t addr, value, add, factor, answer[4];
  DMI_local_status_t status[4];
  int32_t ret;
  int8_t flag;
  OK(DMI_mmap(&addr, RMW_PAGE, 2, NULL));
  rng_fill(5, want, RMW_PAGE);
  OK(DMI_write(addr, RMW_PAGE, want, DMI_PUT_WRITE, NULL));

  for (int64_t size = 1; size <= RMW_PAGE; size += 7) { /* cas, any size */
    memcpy(buf, want + RMW_PAGE - size, (size_t)size);
    rng_fill((uint64_t)size, other, RMW_PAGE);
    buf[size - 1] ^= 1;
    flag = 99;
    OK(DMI_cas(addr + RMW_PAGE - size, size, buf, other, &flag, mode, NULL));
    EQ(flag, DMI_FALSE);
    OK(DMI_read(addr, RMW_PAGE, page, DMI_GET_READ, NULL));
    SAME(page, want, RMW_PAGE);
    buf[size - 1] ^= 1;
    OK(DMI_cas(addr + RMW_PAGE - size, size, buf, other, &flag, mode, NULL));
    EQ(flag, DMI_TRUE);
    memcpy(want + RMW_PAGE - size, other, (size_t)size);
    OK(DMI_read(addr, RMW_PAGE, page, DMI_GET_READ, NULL));
    SAME(page, want, RMW_PAGE);
  }
  for (int64_t size = 1; size <= RMW_PAGE; size += 9) { /* fas */
    rng_fill((uint64_t)size + 100, other, RMW_PAGE);
    memset(buf, 0, sizeof(buf));
    OK(DMI_fas(addr + RMW_PAGE - size, size, other, buf, mode, NULL));
    SAME(buf, want + RMW_PAGE - size, size);
    memcpy(want + RMW_PAGE - size, other, (size_t)size);
  }
  OK(DMI_read(addr, RMW_PAGE, page, DMI_INVALIDATE_READ, NULL));
  SAME(page, want, RMW_PAGE);

  value = INT64_MAX; /* fad wraps around */
  OK(DMI_write(addr + 3, 8, &value, DMI_PUT_WRITE, NULL));
  OK(DMI_fad(addr + 3, 2, &value, mode, NULL));
  EQ(value, INT64_MAX);
  OK(DMI_fad(addr + 3, 0, &value, mode, NULL));
  EQ(value, INT64_MIN + 1);

  value = 10;
  OK(DMI_write(addr, 8, &value, DMI_PUT_WRITE, NULL));
  add = 4;
  factor = 3;
  OK(DMI_atomic(addr, 8, &add, 8, &factor, 8, &value, 8, TAG_ADD, mode, NULL));
  EQ(value, 10);
  OK(DMI_read(addr, 8, &value, DMI_GET_READ, NULL));
  EQ(value, 34);
  memset(answer, -1, sizeof(answer));
  OK(DMI_atomic(addr + 5, 11, buf, 3, other, 64, answer, sizeof(answer), TAG_SIZES, mode, NULL));
  EQ(answer[0], 11);
  EQ(answer[1], 3);
  EQ(answer[2], 64);
  EQ(answer[3], (int64_t)sizeof(answer));
  OK(DMI_read(addr, RMW_PAGE, want, DMI_GET_READ, NULL));
  OK(DMI_atomic(addr, RMW_PAGE, NULL, 0, NULL, 0, NULL, 0, TAG_REVERSE, mode, NULL));
  OK(DMI_read(addr, RMW_PAGE, page, DMI_GET_READ, NULL));
  for (int i = 0; i < RMW_PAGE; i++)
    EQ(page[i], want[RMW_PAGE - 1 - i]);
  value = -1;
  OK(DMI_atomic(addr, 8, &addr, 8, NULL, 0, &value, 8, TAG_CALLS, mode, NULL));
  EQ(value, FORBIDDEN_CALLS);

  /* Asynchronous: inputs may be reused at once, answers are there when it is complete. */
  value = 100;
  OK(DMI_write(addr + RMW_PAGE, 8, &value, DMI_PUT_WRITE, NULL));
  OK(DMI_fad(addr + RMW_PAGE, 5, &answer[0], mode, &status[0]));
  DMI_wait(&status[0], &ret);
  EQ(ret, DMI_TRUE);
  EQ(answer[0], 100);
  add = 7;
  factor = 2;
  OK(DMI_atomic(addr + RMW_PAGE, 8, &add, 8, &factor, 8, &answer[1], 8, TAG_ADD, mode, &status[1]));
  add = factor = -5;
  DMI_wait(&status[1], &ret);
  DMI_wait(&status[1], &ret);
  EQ(ret, DMI_TRUE);
  EQ(answer[1], 105);
  value = 33;
  OK(DMI_fas(addr + RMW_PAGE, 8, &value, &answer[2], mode, &status[2]));
  value = -5;
  DMI_wait(&status[2], &ret);
  EQ(ret, DMI_TRUE);
  EQ(answer[2], 217);
  value = 33;
  add = 34;
  OK(DMI_cas(addr + RMW_PAGE, 8, &value, &add, &flag, mode, &status[3]));
  value = add = -5;
  DMI_wait(&status[3], &ret);
  EQ(ret, DMI_TRUE);
  EQ(flag, DMI_TRUE);
  OK(DMI_read(addr + RMW_PAGE, 8, &value, DMI_UPDATE_READ, NULL));
  EQ(value, 34);
  OK(DMI_munmap(addr, NULL));
}

/* ---- The program --------------------------------------------------------------------------- */

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int64_t value = 0;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  switch ((enum what)job.what) {
    case WHO:
      value = rank_here();
      break;
    case OPS:
      job_ops(&job);
      break;
    case FAD:
      job_fad(&job);
      break;
    case CAS:
      job_cas(&job);
      break;
    case FAS:
      value = job_fas(&job);
      break;
    case ATOMIC:
      job_atomic(&job);
      break;
    case HASH:
      value = job_hash(&job);
      break;
    case FAR:
      job_far(&job);
      break;
  }
  check_report(job.report);
  return value;
}

void DMI_main(int argc, char **argv) {
  static const struct {
    int64_t page_size, page_num, batches;
  } shapes[] = {{1, 1, 10},   {1, 300, 20},  {3, 200, 30},   {7, 1, 20},      {7, 111, 30},
                {64, 64, 30}, {4096, 1, 20}, {4096, 24, 30}, {1 << 20, 3, 9}, {1000001, 2, 9}};
  if (argc != 3) exit(2);
  processes = atoi(argv[1]);
  pool = atoll(argv[2]);
  gather(processes, ids);
  MUST(DMI_mmap(&report, 16, 1, NULL));
  test_processes();
  say("processes tested");
  test_edges();
  test_fetch();
  say("edges tested");
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    test_model(shapes[i].page_size, shapes[i].page_num, scaled(shapes[i].batches) + processes);
    say("%" PRId64 " pages of %" PRId64 " bytes tested", shapes[i].page_num, shapes[i].page_size);
  }
  test_far();
  say("far pages tested");
  test_big();
  say("a big page tested");
  for (int i = 0; i < 2; i++)
    test_rmw_calls(atomic_modes[i]);
  say("read-modify-write calls tested");
  test_rmw_shared();
  say("shared read-modify-write tested");
  verdict("api", report);
}
