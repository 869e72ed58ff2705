/*
 * bench_cxx_dmi.cc - what calls cost in C++ (dmi.hpp) beside the same calls of C.
 *
 *   dmirun ./bench_cxx_dmi
 *
 * and one process that joins it: times, in turns of both languages: `what C-ns C++-ns ratio` lines.
 *
 *   dmirun ./bench_cxx_dmi COUNT
 *
 * alone: makes each kind of call COUNT times in a function of its own, for callgrind to count
 * instructions (test/bench/cxx).
 */
#include "dmi.hpp"

#include <algorithm>
#include <vector>

#include "../../examples/check.h"
#include "bench.h"

namespace {

constexpr int turns = 41;     /* of each language, for one figure */
constexpr int64_t words = 64; /* of an array that is read in turn */
constexpr int64_t block = 512;

/* What the calls use, in global memory. */
struct places {
  dmi::ptr<int64_t> here;   /* a word of a page that the measuring process owns */
  dmi::view<int64_t> copy;  /* words of which it keeps a copy */
  dmi::ptr<int64_t> remote; /* a word of another process */
  dmi::ptr<DMI_mutex_t> mutex;
};

using many = int64_t(const places &, int64_t);

}  // namespace

#define MANY extern "C" __attribute__((noinline)) int64_t
#define TIMES for (int64_t i = 0; i < count; i++)

/* ---- The same in C and in C++ --------------------------------------------------------------- */

MANY c_hit(const places &at, int64_t count) {
  int64_t value, sum = 0;
  TIMES {
    CHECK(DMI_read(at.here.address(), 8, &value, DMI_INVALIDATE_READ, NULL));
    sum += value;
  }
  return sum;
}
MANY cxx_hit(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES sum += at.here.load(dmi::invalidate);
  return sum;
}

MANY c_array(const places &at, int64_t count) {
  const int64_t base = at.copy.data().address();
  int64_t value, sum = 0;
  TIMES {
    CHECK(DMI_read(base + i % words * 8, 8, &value, DMI_INVALIDATE_READ, NULL));
    sum += value;
  }
  return sum;
}
MANY cxx_array(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES sum += at.copy[i % words].load(dmi::invalidate);
  return sum;
}

MANY c_write(const places &at, int64_t count) {
  TIMES CHECK(DMI_write(at.here.address(), 8, &i, DMI_EXCLUSIVE_WRITE, NULL));
  return 0;
}
MANY cxx_write(const places &at, int64_t count) {
  TIMES at.here.store(i, dmi::exclusive);
  return 0;
}

MANY c_add(const places &at, int64_t count) {
  int64_t old, sum = 0;
  TIMES {
    CHECK(DMI_fad(at.here.address(), i, &old, DMI_EXCLUSIVE_ATOMIC, NULL));
    sum += old;
  }
  return sum;
}
MANY cxx_add(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES sum += at.here.fetch_add(i, dmi::exclusive);
  return sum;
}

MANY c_lock(const places &at, int64_t count) {
  TIMES {
    CHECK(DMI_mutex_lock(at.mutex.address()));
    CHECK(DMI_mutex_unlock(at.mutex.address()));
  }
  return 0;
}
MANY cxx_lock(const places &at, int64_t count) {
  dmi::mutex mutex(at.mutex);
  TIMES std::lock_guard<dmi::mutex> lock(mutex);
  return 0;
}

/* A block of memory that is made, filled and freed. */
MANY c_block(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES {
    int64_t *const copy = static_cast<int64_t *>(malloc(block * sizeof(*copy)));
    CHECK(DMI_read(at.copy.data().address(), block * 8, copy, DMI_INVALIDATE_READ, NULL));
    sum += copy[i % block];
    free(copy);
  }
  return sum;
}
MANY cxx_block(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES sum += at.copy.read()[i % block];
  return sum;
}

MANY c_get(const places &at, int64_t count) {
  int64_t value, sum = 0;
  TIMES {
    CHECK(DMI_read(at.remote.address(), 8, &value, DMI_GET_READ, NULL));
    sum += value;
  }
  return sum;
}
MANY cxx_get(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES sum += at.remote.load();
  return sum;
}

MANY c_remote_add(const places &at, int64_t count) {
  int64_t old, sum = 0;
  TIMES {
    CHECK(DMI_fad(at.remote.address(), i, &old, DMI_PUT_ATOMIC, NULL));
    sum += old;
  }
  return sum;
}
MANY cxx_remote_add(const places &at, int64_t count) {
  int64_t sum = 0;
  TIMES sum += at.remote.fetch_add(i);
  return sum;
}

/* ---- Times ---------------------------------------------------------------------------------- */

static const struct {
  const char *what;
  many *in_c, *in_cxx;
  int64_t count; /* in one turn */
} kinds[] = {
    {"hit", c_hit, cxx_hit, 100000},       {"array", c_array, cxx_array, 100000},
    {"write", c_write, cxx_write, 100000}, {"add", c_add, cxx_add, 50000},
    {"lock", c_lock, cxx_lock, 50000},     {"block", c_block, cxx_block, 20000},
    {"get", c_get, cxx_get, 1000},         {"remote_add", c_remote_add, cxx_remote_add, 1000},
};

static double median(std::vector<double> &values) {
  std::nth_element(values.begin(), values.begin() + turns / 2, values.end());
  return values[turns / 2];
}

static double time_of(many *calls, const places &at, int64_t count) {
  const int64_t start = now_ns();
  calls(at, count);
  return static_cast<double>(now_ns() - start) / static_cast<double>(count);
}

/* Both languages in each turn, who is first in turn: what disturbs the machine disturbs both. */
static void measure(const places &at) {
  for (const auto &kind : kinds) {
    std::vector<double> in_c, in_cxx, ratio;
    time_of(kind.in_c, at, kind.count), time_of(kind.in_cxx, at, kind.count);
    for (int turn = 0; turn < turns; turn++) {
      const bool c_first = turn % 2 == 0;
      const double first = time_of(c_first ? kind.in_c : kind.in_cxx, at, kind.count);
      const double second = time_of(c_first ? kind.in_cxx : kind.in_c, at, kind.count);
      in_c.push_back(c_first ? first : second);
      in_cxx.push_back(c_first ? second : first);
      ratio.push_back(in_cxx.back() / in_c.back());
    }
    printf("%s %.2f %.2f %.4f\n", kind.what, median(in_c), median(in_cxx), median(ratio));
  }
  fflush(stdout);
}

/* ---- The program ---------------------------------------------------------------------------- */

int64_t DMI_thread(int64_t address) {
  dmi::object<int64_t> mine;
  dmi::object<DMI_mutex_t> mutex;
  places at = dmi::ptr<places>(address).load();
  at.here = mine;
  at.mutex = mutex;
  measure(at);
  return 0;
}

void DMI_main(int argc, char **argv) {
  dmi::array<int64_t> copied(block, dmi::elements(block), dmi::invalidate);
  dmi::object<int64_t> remote, mine;
  dmi::object<DMI_mutex_t> mutex;
  copied.make(0, block, dmi::exclusive).write_back();
  const places at = {mine, copied, remote, mutex};
  const int64_t count = argc > 1 ? atoll(argv[1]) : 0;
  if (count > 0) {
    /* Once for what only the first call does. */
    for (const int64_t times : {int64_t{1}, count})
      for (const auto &kind : kinds)
        kind.in_c(at, times), kind.in_cxx(at, times);
    return;
  }
  int32_t other;
  do {
    other = dmi::poll().dmi_id;
    dmi::welcome(other);
  } while (other == dmi::rank());
  const dmi::object<places> there(at);
  dmi::thread::create(other, there).join();
}
