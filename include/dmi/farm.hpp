/*
 * dmi/farm.hpp - parallel_for: a loop whose passes are tasks of an elastic farm (dmi_farm.h).
 * Included by dmi.hpp.
 */
#ifndef DMI_FARM_HPP
#define DMI_FARM_HPP

#include <vector>

#include "dmi/function.hpp"
#include "dmi/memory.hpp"
#include "dmi_farm.h"

extern "C" {
#pragma weak DMI_farm_task
}

/* ---- For the library (dmi/guard.hpp) --------------------------------------------------------- */

namespace dmi_cxx {

/* A body of a loop; all of them are known by the names of their types before DMI_main begins. */
struct loop {
  uint64_t hash; /* of the name */
  void (*run)(int64_t task, void *out, int64_t size, const void *job);
  const loop *next;
};
inline const loop *loops = nullptr;

/* The job of a farm that parallel_for runs; behind it the program's own bytes. */
struct loop_job {
  uint64_t hash; /* of the body */
  uint64_t size; /* of those bytes */
};

inline uint64_t hash_of(const std::string &name) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

inline int32_t run_loop(int64_t task, void *out, int64_t size, const void *job) {
  const auto *about = static_cast<const loop_job *>(job);
  const loop *one = loops;
  while (one && one->hash != about->hash)
    one = one->next;
  if (!one) return -1;
  one->run(task, out, size, job);
  return 0;
}

}  // namespace dmi_cxx

DMI_CXX_BEGIN

/* How a farm is run. */
class farm_options {
 public:
  /* Elements that a body makes which has an out<T>. */
  farm_options &results(int64_t num) {
    return results_ = num, *this;
  }
  /* Begins when so many processes are there. */
  farm_options &processes(int32_t num) {
    return processes_ = num, *this;
  }
  /* Threads in each process; 0: one for each core. */
  farm_options &threads(int32_t num) {
    return threads_ = num, *this;
  }
  /* How often a task that fails is tried again. */
  farm_options &retries(int32_t num) {
    return retries_ = num, *this;
  }
  /* Prints a line for each process that joins, leaves or is lost. */
  farm_options &print(FILE *file = stdout) {
    return on_event(DMI_farm_print, file);
  }
  farm_options &on_event(void (*event)(const DMI_farm_event_t *event, void *arg), void *arg) {
    return event_ = event, event_arg_ = arg, *this;
  }
  int64_t results() const {
    return results_;
  }
  DMI_farm_t farm() const {
    DMI_farm_t farm{};
    farm.processes = processes_;
    farm.threads = threads_;
    farm.retries = retries_;
    farm.event = event_;
    farm.event_arg = event_arg_;
    return farm;
  }

 private:
  int64_t results_ = 1;
  int32_t processes_ = 0, threads_ = 0, retries_ = 0;
  void (*event_)(const DMI_farm_event_t *, void *) = nullptr;
  void *event_arg_ = nullptr;
};

/* The results of a loop: those of each pass are read when they are asked for. */
template <class R>
class results {
 public:
  results() = default;
  explicit results(const DMI_farm_t &farm, int64_t each) : farm_(farm), each_(each) {
  }
  results(results &&other) noexcept : farm_(other.farm_), each_(other.each_) {
    other.farm_ = {};
  }
  results &operator=(results &&) = delete;
  ~results() {
    if (farm_.tasks > 0) DMI_farm_free(&farm_);
  }

  int64_t size() const noexcept {
    return farm_.tasks;
  }
  int64_t failed() const noexcept {
    return farm_.failed;
  } /* of these */
  double seconds() const noexcept {
    return farm_.seconds;
  }
  /* 0, or -1 for a pass that an exception has left. */
  outcome<int32_t> status(int64_t task) const {
    int32_t status = 0;
    std::vector<char> bytes(static_cast<std::size_t>(farm_.result_size) + 1);
    if (!DMI_farm_result(&farm_, task, bytes.data(), &status))
      return detail::fail<int32_t>("DMI_farm_result", DMI_errno());
    return status;
  }
  /* All elements of a pass.  DMI_EREMOTE when it has failed. */
  template <class T = R>
  outcome<std::vector<T>> read(int64_t task) const {
    std::vector<T> all(static_cast<std::size_t>(each_));
    const int32_t code = read_to(task, all.data());
    if (code != DMI_OK) return fail<std::vector<T>>(task, code);
    return all;
  }
  /* The result of a pass, the first element if it has several. */
  template <class T = R>
  outcome<T> operator[](int64_t task) const {
    if (each_ == 1) {
      T one;
      const int32_t code = read_to(task, &one);
      if (code != DMI_OK) return fail<T>(task, code);
      return one;
    }
    auto all = read(task);
#ifdef DMI_NO_EXCEPTIONS
    if (!all) return result<T>::failed(all.error());
    return all.value()[0];
#else
    return all[0];
#endif
  }

 private:
  /* Only the process that did the pass knows what was thrown. */
  template <class T>
  static outcome<T> fail([[maybe_unused]] int64_t task, int32_t code) {
#ifndef DMI_NO_EXCEPTIONS
    if (code == DMI_EREMOTE)
      throw error("DMI_farm_result", code,
                  "pass " + std::to_string(task) +
                      ", and the process that did it has printed what was thrown");
#endif
    return detail::fail<T>("DMI_farm_result", code);
  }
  int32_t read_to(int64_t task, void *to) const {
    int32_t status = 0;
    if (!DMI_farm_result(&farm_, task, to, &status)) return DMI_errno();
    return status == 0 ? DMI_OK : DMI_EREMOTE;
  }
  DMI_farm_t farm_{};
  int64_t each_ = 0;
};

namespace detail {

struct nothing {};

/* What a body makes, from its result and its parameters. */
template <class R, class P>
struct made_by {
  using type = R;
};
/* A job is the bytes of an object, or the elements of a std::vector, for a body with dmi::in. */
template <class Job>
struct job_kind {
  using type = Job;
  static const void *bytes(const Job &job) {
    return &job;
  }
  static std::size_t size(const Job &) {
    return sizeof(Job);
  }
  static const Job &given(const void *job, uint64_t) {
    return *static_cast<const Job *>(job);
  }
};
template <class T>
struct job_kind<std::vector<T>> {
  using type = T;
  static const void *bytes(const std::vector<T> &job) {
    return job.data();
  }
  static std::size_t size(const std::vector<T> &job) {
    return job.size() * sizeof(T);
  }
  static in<T> given(const void *job, uint64_t size) {
    return in<T>(static_cast<const T *>(job), static_cast<int64_t>(size / sizeof(T)));
  }
};

template <class I, class J, class T>
struct made_by<void, std::tuple<I, J, out<T>>> {
  using type = T;
};

template <class F, class Job>
class loop_of {
 public:
  using parameters = typename signature<F>::parameters;
  using returns = typename signature<F>::result;
  using type = typename made_by<returns, parameters>::type;
  static constexpr std::size_t arity = std::tuple_size_v<parameters>;
  static constexpr bool fills = arity == 3;

  static uint64_t hash() {
    return registered_.hash;
  }

 private:
  static void run(int64_t task, void *to, int64_t size, const void *job) {
    const F &body = the_lambda<F>();
    const auto *const about = static_cast<const dmi_cxx::loop_job *>(job);
    [[maybe_unused]] const auto &own = job_kind<Job>::given(about + 1, about->size);
    if constexpr (fills)
      body(task, own, out<type>(static_cast<type *>(to), size / size_of<type>()));
    else if constexpr (std::is_void_v<returns> && arity == 2)
      body(task, own);
    else if constexpr (std::is_void_v<returns>)
      body(task);
    else if constexpr (arity == 2)
      *static_cast<type *>(to) = body(task, own);
    else
      *static_cast<type *>(to) = body(task);
  }
  static dmi_cxx::loop enter() {
    const uint64_t hash = dmi_cxx::hash_of(name_of<F>(reinterpret_cast<uintptr_t>(&run)));
    return {hash, &run, dmi_cxx::loops};
  }
  struct entry : dmi_cxx::loop {
    entry() : dmi_cxx::loop(enter()) {
      dmi_cxx::loops = this;
    }
  };
  static const entry registered_;
};
template <class F, class Job>
const typename loop_of<F, Job>::entry loop_of<F, Job>::registered_;

}  // namespace detail

/*
 * Does body(i, job) for i from 0 to passes - 1, in all processes, while these come, go and are lost
 * (DMI_farm_run).  The body is a lambda without captures: what it needs is `job`, of which each
 * process gets a copy.  It has one of these forms:
 *
 *   [](int64_t i) -> R                                      no job
 *   [](int64_t i, const Job &job) -> R
 *   [](int64_t i, dmi::in<T> job) -> R                      the job is a std::vector<T>
 *   [](int64_t i, const Job &job, dmi::out<T> result)       options.results(n): n elements of T
 *
 * A pass may be done more than once, when a process is lost.  A pass that throws has failed.
 *
 * DMI_EBUSY, DMI_EEND and so on as DMI_farm_run.  DMI_EINVAL in a program that defines
 * DMI_farm_task.
 */
template <class Job, class F, class = std::enable_if_t<!std::is_same_v<F, farm_options>>>
auto parallel_for(int64_t passes, const Job &job, F, const farm_options &options = {})
    -> outcome<results<typename detail::loop_of<F, Job>::type>> {
  using loop = detail::loop_of<F, Job>;
  using type = typename loop::type;
  using found = results<type>;
  using kind = detail::job_kind<Job>;
  detail::check_lambda<F>();
  detail::check_type<typename kind::type>();
  static_assert(alignof(typename kind::type) <= 16, "jobs are aligned to 16 bytes");
  const dmi_cxx::loop_job about = {loop::hash(), kind::size(job)};
  std::vector<char> all(sizeof(about) + kind::size(job));
  std::memcpy(all.data(), &about, sizeof(about));
  if (about.size > 0) std::memcpy(all.data() + sizeof(about), kind::bytes(job), about.size);
  DMI_farm_t farm = options.farm();
  const int64_t each = std::is_void_v<type> ? 0 : loop::fills ? options.results() : 1;
  if (DMI_farm_task)
    return detail::refuse<found>("dmi::parallel_for", DMI_EINVAL, [] {
      return "the program defines DMI_farm_task, too: it can have one of them";
    });
  farm.tasks = passes;
  if constexpr (!std::is_void_v<type>) {
    detail::check_type<type>();
    if (each < 0 || __builtin_mul_overflow(each, detail::size_of<type>(), &farm.result_size))
      return detail::refuse<found>("dmi::parallel_for", DMI_ESIZE, [&] {
        return std::to_string(each) + " elements of " + std::to_string(detail::size_of<type>()) +
               " bytes cannot be the result of a pass";
      });
  }
  farm.job = all.data();
  farm.job_size = static_cast<int64_t>(all.size());
  if (!DMI_farm_run(&farm)) return detail::fail<found>("DMI_farm_run", DMI_errno());
  farm.job = nullptr;
  return found(farm, each);
}
template <class F>
auto parallel_for(int64_t passes, F body, const farm_options &options = {}) {
  return parallel_for(passes, detail::nothing(), body, options);
}

DMI_CXX_END

#endif
