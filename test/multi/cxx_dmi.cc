/*
 * cxx_dmi.cc - everything of dmi.hpp, in two processes, with exceptions or (DMI_NO_EXCEPTIONS)
 * codes.  Compiled and run by cxx.t.
 */
#include "dmi.hpp"

#include <condition_variable>
#include <numeric>

static int checks, wrong;

#define EXPECT(is) expect((is), #is, __LINE__)

static void expect(bool is, const char *what, int line) {
  checks++;
  if (is) return;
  wrong++;
  printf("line %d: %s\n", line, what);
}

/* The value of a call, in both modes. */
#ifdef DMI_NO_EXCEPTIONS
template <class T>
static T must(dmi::result<T> given) {
  if (!given) printf("failed: %s\n", DMI_strerrorname(given.error())), exit(1);
  return std::move(given).value();
}
static void must(dmi::result<void> given) {
  if (!given) printf("failed: %s\n", DMI_strerrorname(given.error())), exit(1);
}
#define MUST(call) must(call)
#define FAILS(call, code) EXPECT((call).error() == code)
#define FAILS_TO_MAKE(what, code) EXPECT(!(what) && DMI_errno() == code)
#else
#define MUST(call) (call)
#define FAILS(call, expected)                                   \
  do {                                                          \
    int32_t got = DMI_OK;                                       \
    try {                                                       \
      (void)(call);                                             \
    } catch (const dmi::error &known) {                         \
      got = known.code();                                       \
      EXPECT(strstr(known.what(), DMI_strerrorname(expected))); \
    }                                                           \
    EXPECT(got == (expected));                                  \
  } while (0)
#define FAILS_TO_MAKE(what, code) FAILS(what, code)
#endif

/* With exceptions: the text of one. */
#ifdef DMI_NO_EXCEPTIONS
#define SAYS(call, text) (void)0
#else
#define SAYS(call, text)                    \
  do {                                      \
    std::string got = "nothing was thrown"; \
    try {                                   \
      (void)(call);                         \
    } catch (const dmi::error &known) {     \
      got = known.what();                   \
    }                                       \
    EXPECT(got.find(text) == 0);            \
  } while (0)
#endif

struct place {
  int32_t tag;
  double at[3];
};

/* What both processes use. */
struct shared {
  int64_t count;
  uint64_t unsigned_count;
  place here;
  dmi::ptr<place> other;
  dmi::view<double> numbers;
  DMI_mutex_t mutex;
  DMI_cond_t changed;
  DMI_barrier_t barrier;
};
static_assert(sizeof(dmi::ptr<place>) == sizeof(int64_t), "as large as an address");
static_assert(std::is_trivially_copyable_v<shared>, "what is shared may name global memory");

/* ---- Memory ---------------------------------------------------------------------------------- */

static void pointers(dmi::ptr<shared> at) {
  const auto here = at.member(&shared::here);
  EXPECT(here.address() == at.address() + static_cast<int64_t>(offsetof(shared, here)));
  EXPECT(at.member(&shared::here).member(&place::at)[2].address() ==
         at.address() + static_cast<int64_t>(offsetof(shared, here) + offsetof(place, at) + 16));
  EXPECT(!dmi::ptr<place>() && !dmi::ptr<place>(nullptr) && here);
  EXPECT(here + 2 - here == 2 && (here + 1)[1] - 2 == here && here < here + 1 && here >= here);
  dmi::ptr<place> moving = here;
  EXPECT(moving++ == here && --moving == here && ++moving != here && (moving -= 1) == here);
  const dmi::ptr<const place> reads = here;
  MUST(here.store({7, {1, 2, 3}}, dmi::exclusive));
  EXPECT(MUST(reads.load()).tag == 7 && MUST(here.load(dmi::invalidate)).at[2] == 3);
  EXPECT(here.as<int32_t>().address() == here.address() && MUST(here.as<int32_t>().load()) == 7);
  MUST(at.member(&shared::other).store(here));
  EXPECT(MUST(MUST(at.member(&shared::other).load()).load()).at[1] == 2);
}

static void modifies(dmi::ptr<shared> at) {
  const auto count = at.member(&shared::count);
  MUST(count.store(5));
  EXPECT(MUST(count.fetch_add(3)) == 5 && MUST(count.fetch_add(-8, dmi::exclusive)) == 8);
  EXPECT(MUST(count.exchange(4)) == 0);
  int64_t old = 3;
  EXPECT(!MUST(count.compare_exchange(old, 9)) && old == 4 && MUST(count.load()) == 4);
  EXPECT(MUST(count.compare_exchange(old, 8)) && old == 4);
  while (!MUST(count.compare_exchange(old, old + 1))) { /* as with std::atomic */
  }
  EXPECT(old == 8);
  EXPECT(MUST(count.load()) == 9 && MUST(count.wait_change(4)) == 9);
  auto later = MUST(count.fetch_add_async(1));
  EXPECT(MUST(later.get()) == 9 && MUST(later.get()) == 9 && later.ready());
  MUST(at.member(&shared::unsigned_count).store(~uint64_t{0}));
  EXPECT(MUST(at.member(&shared::unsigned_count).fetch_add(1)) == ~uint64_t{0});
  EXPECT(MUST(at.member(&shared::unsigned_count).load()) == 0);
}

static void futures(dmi::view<double> a) {
  std::vector<dmi::future<double>> all;
  MUST(MUST(a[1].store_async(4.5)).get());
  for (int i = 0; i < 3; i++)
    all.push_back(MUST(a[i].load_async(dmi::get)));
  EXPECT(MUST(all[1].get()) == 4.5 && MUST(all[2].get()) == 0);
  double some[2] = {};
  MUST(MUST(a.data().load_to_async(some, 2)).get());
  EXPECT(some[1] == 4.5);
  dmi::future<double> moved = std::move(all[1]);
  EXPECT(moved && !all[1] && MUST(moved.get()) == 4.5);
}

static void copies() {
  dmi::array<double> a(1000, dmi::page<80>(), dmi::invalidate, dmi::exclusive);
  EXPECT(a && a.size() == 1000 && a.page_elements() == 10);
  futures(a);
  {
    auto part = MUST(a.make(5, 25));
    std::iota(part.begin(), part.end(), 1.0);
  }
  {
    auto part = MUST(a.edit(5, 15, dmi::get, dmi::put));
    EXPECT(part.size() == 10 && part[0] == 1 && part[9] == 10);
    part[0] = -1;
    MUST(part.write_back());
    part[1] = -2; /* is not written any more */
  }
  {
    auto part = MUST(a.edit(5, 15));
    part[9] = -3;
    part.discard();
  }
  const auto all = MUST(a.read());
  EXPECT(all[4] == 0 && all[5] == -1 && all[6] == 2 && all[14] == 10 && all[24] == 20);
  EXPECT(all.size() == 1000 && all[25] == 0);
#ifndef DMI_NO_EXCEPTIONS
  try {
    auto part = a.edit(0, 1);
    part[0] = 99;
    throw 1;
  } catch (int) {
  }
  EXPECT(a[0].load() == 0);
#endif
  const dmi::view<const double> reader = a; /* of an array, and of a view */
  const std::size_t at = 6;                 /* any type of integer */
  EXPECT(MUST(reader.read(0, 10))[at] == 2 && reader.size() == 1000);
  const dmi::view<double> tail = MUST(a.part(990, 1000));
  EXPECT(tail.size() == 10 && tail[0] == a[990] && tail.reads() == dmi::invalidate);
  FAILS(a.part(990, 1001), DMI_ERANGE);
  FAILS(a.read(5, 4), DMI_ERANGE);
  FAILS(a.edit(-1, 4), DMI_ERANGE);
  SAYS(a.part(990, 1001), "dmi::view::part: DMI_ERANGE: elements 990 to 1001 of 1000");
  SAYS(a.read(5, 4), "dmi::view: DMI_ERANGE: the end is before the begin: elements 5 to 4");
}

static void owning() {
  dmi::array<place> a(10, dmi::elements(3)), b(4, dmi::bytes(2 * sizeof(place)));
  EXPECT(b.page_elements() == 2);
  const int64_t old = b.data().address(), first = a.data().address();
  b = std::move(a);
  EXPECT(!a && b.data().address() == first && b.page_elements() == 3);
  FAILS(dmi::ptr<place>(old).load(), DMI_EADDR); /* unmapped */
  {
    dmi::array<place> c(std::move(b));
    MUST(c[9].store({1, {}}));
  }
  FAILS(dmi::ptr<place>(first).load(), DMI_EADDR);
  dmi::array<int> kept(1, dmi::elements(1));
  const dmi::view<int> all = kept.release();
  EXPECT(!kept && MUST(all[0].load()) == 0);
  MUST(dmi::detail::check(DMI_munmap(all.data().address(), nullptr), "DMI_munmap"));
}

static void errors() {
  int64_t out = 0;
  FAILS(dmi::ptr<int>().load(), DMI_EADDR);
  FAILS(dmi::ptr<int>(8).store(1), DMI_EADDR);
  FAILS(dmi::ptr<int64_t>(8).fetch_add(1), DMI_EADDR);
  FAILS(dmi::ptr<int64_t>(8).exchange(1), DMI_EADDR);
  FAILS(dmi::ptr<int64_t>(8).compare_exchange(out, 2), DMI_EADDR);
  FAILS(dmi::ptr<int64_t>(0).load(), DMI_EADDR);
  FAILS(dmi::ptr<int64_t>(8).load_to(&out, INT64_MAX), DMI_EINVAL);
  FAILS_TO_MAKE(dmi::array<double>(INT64_MAX, dmi::elements(1)), DMI_ESIZE);
  FAILS_TO_MAKE(dmi::array<double>(INT64_MAX / 2, dmi::elements(INT64_MAX / 2)), DMI_ESIZE);
  FAILS_TO_MAKE(dmi::array<double>(0, dmi::elements(1)), DMI_ESIZE);
  FAILS_TO_MAKE(dmi::array<double>(-1, dmi::elements(1)), DMI_ESIZE);
  FAILS_TO_MAKE(dmi::array<double>(5, dmi::elements(0)), DMI_ESIZE);
  FAILS_TO_MAKE(dmi::array<place>(5, dmi::bytes(100)), DMI_ESIZE); /* no whole elements */
#ifndef DMI_NO_EXCEPTIONS
  try {
    dmi::array<place> a(10, dmi::bytes(100));
  } catch (const dmi::error &known) {
    EXPECT(strstr(known.what(), "elements of 32 bytes do not fit pages of 100 bytes") &&
           strstr(known.what(), "such as 96 bytes"));
  }
#endif
  dmi::array<int64_t> a(4, dmi::elements(2));
  FAILS(a[3].load_to(&out, 2), DMI_ERANGE);
  FAILS(dmi::ptr<int64_t>(a[1].address() + 4).fetch_add(1), DMI_ERANGE);
  SAYS(a[3].load_to(&out, 2),
       "DMI_read: DMI_ERANGE: 8 of the 16 bytes are beyond the end of the mapping at 0x");
  SAYS(dmi::ptr<int64_t>().load(), "DMI_read: DMI_EADDR: the address is DMI_NULL");
  SAYS(dmi::ptr<int64_t>(8).store(1), "DMI_write: DMI_EADDR: addresses of DMI begin at 0x");
  SAYS(dmi::welcome(12345), "DMI_welcome: DMI_EMEMBER: no process has that id now");
  FAILS(dmi::welcome(12345), DMI_EMEMBER);
  FAILS(dmi::thread::create(12345, 0), DMI_EMEMBER);
  FAILS(dmi::thread().join(), DMI_ETHREAD);
}

/* More than all processes have (-s): the library's error. */
static void too_large() {
  dmi::array<char> a(int64_t{1} << 32, dmi::page<(1 << 22)>(), dmi::get, dmi::exclusive);
  int32_t code = DMI_OK;
  for (int64_t i = 0; code == DMI_OK && i < a.size(); i += a.page_elements()) {
    const std::vector<char> whole(static_cast<size_t>(a.page_elements()), 'x');
#ifdef DMI_NO_EXCEPTIONS
    code = a[i].store_from(whole.data(), a.page_elements(), dmi::exclusive).error();
#else
    try {
      a[i].store_from(whole.data(), a.page_elements(), dmi::exclusive);
    } catch (const dmi::error &known) {
      code = known.code();
    }
#endif
  }
  EXPECT(code == DMI_ENOMEM);
}

/* ---- Farms and remote functions ---------------------------------------------------------------
 */

static int64_t twice(int64_t x) {
  return 2 * x;
}

static void farms() {
  const auto squares = MUST(dmi::parallel_for(100, [](int64_t i) { return i * i; }));
  EXPECT(squares.size() == 100 && MUST(squares[9]) == 81 && squares.failed() == 0);
  const double factor = 0.5;
  const auto lists = MUST(dmi::parallel_for(
      5, factor,
      [](int64_t i, const double &f, dmi::out<double> list) {
        for (int64_t k = 0; k < list.size(); k++)
          list[k] = f * static_cast<double>(i * k);
      },
      dmi::farm_options().results(4)));
  EXPECT(MUST(lists.read(3)) == (std::vector<double>{0, 1.5, 3, 4.5}) && MUST(lists[3]) == 0);
  const std::vector<int32_t> table = {5, 6, 7};
  const auto sums = MUST(dmi::parallel_for(2, table, [](int64_t i, dmi::in<int32_t> all) {
    return std::accumulate(all.begin(), all.end(), static_cast<int32_t>(i));
  }));
  EXPECT(MUST(sums[1]) == 19);
  dmi::object<int64_t> count;
  MUST(dmi::parallel_for(50, dmi::ptr<int64_t>(count),
                         [](int64_t, dmi::ptr<int64_t> at) { (void)at.fetch_add(1); }));
  EXPECT(MUST(count.load()) == 50);
  FAILS(dmi::parallel_for(-1, [](int64_t i) { return i; }), DMI_EINVAL);
  FAILS(dmi::parallel_for(
            1, 0, [](int64_t, const int &, dmi::out<double>) {},
            dmi::farm_options().results(INT64_MAX)),
        DMI_ESIZE);
  FAILS(squares[100], DMI_EINVAL);
}

static void remotes() {
  dmi::client client(dmi::begin_with(2));
  EXPECT(static_cast<bool>(client));
  auto numbers = MUST(client.put(std::vector<double>{1, 2, 3}));
  dmi::data<double> scaled;
  MUST(client.call(
      [](dmi::in<double> from, dmi::out<double> to, double by) {
        for (int64_t i = 0; i < from.size(); i++)
          to[i] = by * from[i];
      },
      numbers, scaled.out(3), 10));
  auto sum = MUST(client.call(
      [](dmi::in<double> all) { return std::accumulate(all.begin(), all.end(), 0.0); }, scaled));
  EXPECT(MUST(sum.get()) == 60 && scaled.size() == 3 && MUST(scaled.get(1)) == 20);
  const dmi::data<double> before = scaled; /* a second name */
  MUST(client.call([](dmi::inout<double> all) { all[0] = -1; }, scaled.inout()));
  EXPECT(MUST(before.get()) == 10 && MUST(scaled.read()) == (std::vector<double>{-1, 20, 30}));
  scaled = MUST(MUST(client.call<twice>(21)).get()) == 42 ? before : numbers;
  EXPECT(MUST(scaled.get()) == 10);
  MUST(client.call([](dmi::in<double> x, dmi::out<double> y) { y[0] = x[0] + 1; }, scaled,
                   scaled.out())); /* the old value, the new name */
  EXPECT(MUST(scaled.get()) == 11 && scaled.size() == 1 && !scaled.failure());
  FAILS(scaled.get(1), DMI_ERANGE);
  dmi::data<double> none;
  FAILS(client.call([](dmi::out<double>) {}, none.out(-1)), DMI_EINVAL);
  EXPECT(!none);
  MUST(client.call([](dmi::in<double> x, dmi::out<double> y) { y[0] = x[2]; }, before, none.out()));
#ifdef __cpp_exceptions
  auto broken = MUST(client.call(
      [](int64_t x) -> int64_t {
        if (x > 0) throw std::range_error("x is above 0");
        return x;
      },
      1));
  FAILS(broken.get(), DMI_EREMOTE);
  const auto why = broken.failure();
  EXPECT(why && strcmp(why->sentence, "x is above 0") == 0 && strstr(why->function, "lambda"));
#endif
}

/* ---- Two processes -----------------------------------------------------------------------------
 */

/* Both: add numbers under the mutex, and meet. */
static void work(dmi::ptr<shared> at, int64_t own) {
  dmi::mutex mutex(at.member(&shared::mutex));
  dmi::condition_variable changed(at.member(&shared::changed));
  dmi::barrier barrier(at.member(&shared::barrier));
  const auto count = at.member(&shared::count);
  for (int i = 0; i < 20; i++) {
    std::lock_guard<dmi::mutex> lock(mutex);
    MUST(count.store(MUST(count.load()) + 1));
  }
  {
    std::unique_lock<dmi::mutex> lock(mutex);
    MUST(changed.notify_all());
    MUST(changed.wait(lock, [&] { return MUST(count.load()) == 40; }));
    EXPECT(lock.owns_lock());
  }
  {
    std::unique_lock<dmi::mutex> lock(mutex);
    MUST(changed.notify_all());
  }
  MUST(barrier.arrive_and_wait(2));
  EXPECT(MUST(barrier.reduce(own, DMI_OP_SUM, 2)) == 3);
  EXPECT(MUST(barrier.reduce(static_cast<double>(own), DMI_OP_MAX, 2)) == 2.0);
  std::unique_lock<dmi::mutex> lock(mutex, std::defer_lock);
  while (!lock.try_lock()) {
  }
}

int64_t DMI_thread(int64_t address) {
  const dmi::ptr<shared> at(address);
  work(at, 2);
  EXPECT(MUST(MUST(at.member(&shared::numbers).load())[3].load()) == 3.25);
  return wrong == 0 ? MUST(dmi::rank()) : -1;
}

void DMI_main(int, char **) {
  for (int i = 0; i < 2; i++)
    MUST(dmi::welcome(MUST(dmi::poll()).dmi_id));
  EXPECT(!MUST(dmi::peek()));
  EXPECT(MUST(dmi::nodes()).size() == 2 && MUST(dmi::rank()) == 0);
  dmi::object<shared> all;
  const dmi::ptr<shared> at = all;
  pointers(at);
  modifies(at);
  copies();
  owning();
  errors();
  farms();
  remotes();
  dmi::array<double> numbers(10, dmi::elements(10));
  MUST(numbers[3].store(3.25));
  MUST(at.member(&shared::numbers).store(numbers));
  MUST(at.member(&shared::count).store(0));
  const dmi::thread thread = MUST(dmi::thread::create(1, at));
  work(at, 1);
  EXPECT(MUST(thread.join()) == 1);
  too_large();
  printf("%d checks, %d wrong\n", checks, wrong);
}
