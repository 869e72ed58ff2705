/*
 * dmi/sync.hpp - mutexes, conditions and barriers in global memory.  Included by dmi.hpp.
 *
 * The objects here only name what is in global memory: a member of type DMI_mutex_t and so on,
 * which is ready when its memory was never written.  Make them where they are needed:
 *
 *   dmi::mutex mutex(job.member(&job_t::mutex));
 *   std::lock_guard<dmi::mutex> lock(mutex);
 */
#ifndef DMI_SYNC_HPP
#define DMI_SYNC_HPP

#include <mutex>

#include "dmi/memory.hpp"

DMI_CXX_BEGIN

/*
 * For std::lock_guard, std::unique_lock and std::scoped_lock: lock, try_lock and unlock.
 *
 * When a process was lost that held it, lock() throws DMI_EOWNERDEAD, and the mutex is free; so it
 * does until somebody has locked it with lock_mending, which calls `mend` then, while it holds the
 * mutex.
 *
 * With DMI_NO_EXCEPTIONS lock() cannot tell of a failure: it prints a line and aborts; acquire()
 * is the same with a result.
 */
class mutex {
 public:
  explicit mutex(ptr<DMI_mutex_t> at) noexcept : address_(at.address()) {
  }
  int64_t address() const noexcept {
    return address_;
  }

  DMI_CXX_HERE outcome<void> acquire() {
    if (DMI_mutex_lock(address_)) return detail::done();
    return failed("DMI_mutex_lock");
  }
#ifdef DMI_NO_EXCEPTIONS
  DMI_CXX_HERE void lock() {
    whole(acquire(), "DMI_mutex_lock");
  }
  DMI_CXX_HERE bool try_lock() {
    return whole(try_acquire(), "DMI_mutex_trylock");
  }
#else
  DMI_CXX_HERE void lock() {
    acquire();
  }
  DMI_CXX_HERE bool try_lock() {
    return try_acquire();
  }
#endif
  template <class Mend>
  DMI_CXX_HERE outcome<void> lock_mending(Mend mend) {
    if (DMI_mutex_lock(address_)) return detail::done();
    const int32_t code = DMI_errno();
    if (code != DMI_EOWNERDEAD) return detail::fail<void>("DMI_mutex_lock", code);
    std::unique_lock<mutex> lock(*this, std::adopt_lock);
    mend();
    lock.release();
    return detail::check(DMI_mutex_consistent(address_), "DMI_mutex_consistent");
  }
  DMI_CXX_HERE outcome<bool> try_acquire() {
    int32_t held = DMI_FALSE;
    if (!DMI_mutex_trylock(address_, &held)) {
      const int32_t code = DMI_errno();
      if (code == DMI_EOWNERDEAD) unlock();
      return detail::fail<bool>("DMI_mutex_trylock", code);
    }
    return held == DMI_TRUE;
  }
  /* When the mutex is gone, with its mapping or with a process, that is no failure.  One of the
   * program (DMI_EHOLDER, DMI_EINVAL) prints a line, and aborts. */
  DMI_CXX_HERE void unlock() noexcept {
    if (DMI_mutex_unlock(address_)) return;
    const int32_t code = DMI_errno();
    if (code != DMI_EADDR && code != DMI_ELOST) detail::die("DMI_mutex_unlock", code);
  }

 private:
  outcome<void> failed(const char *call) {
    const int32_t code = DMI_errno();
    if (code == DMI_EOWNERDEAD) unlock();
    return detail::fail<void>(call, code);
  }
#ifdef DMI_NO_EXCEPTIONS
  template <class T>
  static T whole(result<T> given, const char *call) {
    if (!given) detail::die(call, given.error());
    return given.value();
  }
#endif
  int64_t address_;
};

/* Waits for a notice; spurious ones are rare, but come when a process was lost: give a predicate.
 */
class condition_variable {
 public:
  explicit condition_variable(ptr<DMI_cond_t> at) noexcept : address_(at.address()) {
  }

  DMI_CXX_HERE outcome<void> wait(std::unique_lock<mutex> &lock) {
    return detail::check(DMI_cond_wait(address_, lock.mutex()->address()), "DMI_cond_wait");
  }
  template <class Predicate>
  DMI_CXX_HERE outcome<void> wait(std::unique_lock<mutex> &lock, Predicate is_so) {
    while (!is_so()) {
      if (!DMI_cond_wait(address_, lock.mutex()->address()))
        return detail::fail<void>("DMI_cond_wait", DMI_errno());
    }
    return detail::done();
  }
  DMI_CXX_HERE outcome<void> notify_one() {
    return detail::check(DMI_cond_signal(address_), "DMI_cond_signal");
  }
  DMI_CXX_HERE outcome<void> notify_all() {
    return detail::check(DMI_cond_broadcast(address_), "DMI_cond_broadcast");
  }

 private:
  int64_t address_;
};

namespace detail {

template <class T>
constexpr DMI_type_t reduced_type() {
  constexpr bool is_int = std::is_integral_v<T> && std::is_signed_v<T>;
  static_assert((is_int && (sizeof(T) == 4 || sizeof(T) == 8)) || std::is_same_v<T, float> ||
                    std::is_same_v<T, double>,
                "a barrier combines int32_t, int64_t, float and double");
  if constexpr (is_int) return sizeof(T) == 4 ? DMI_TYPE_INT32 : DMI_TYPE_INT64;
  return std::is_same_v<T, float> ? DMI_TYPE_FLOAT : DMI_TYPE_DOUBLE;
}

}  // namespace detail

/* One thread's use of a barrier. */
class barrier {
 public:
  DMI_CXX_HERE explicit barrier(ptr<DMI_barrier_t> at) {
    is_made_ =
        detail::constructs(DMI_local_barrier_init(&local_, at.address()), "DMI_local_barrier_init");
  }
  barrier(const barrier &) = delete;
  barrier &operator=(const barrier &) = delete;
  DMI_CXX_HERE ~barrier() {
    if (is_made_) DMI_local_barrier_destroy(&local_);
  }

  /* Waits until `threads` threads have come. */
  DMI_CXX_HERE outcome<void> arrive_and_wait(int32_t threads) {
    return detail::check(DMI_local_barrier_sync(&local_, threads), "DMI_local_barrier_sync");
  }
  /* Combines the numbers of all threads: barrier.reduce(part, DMI_OP_SUM, threads). */
  template <class T>
  DMI_CXX_HERE outcome<T> reduce(T part, DMI_op_t op, int32_t threads) {
    constexpr DMI_type_t type = detail::reduced_type<T>();
    if (!DMI_local_barrier_allreduce_op(&local_, op, type, &part, &part, 1, threads))
      return detail::fail<T>("DMI_local_barrier_allreduce_op", DMI_errno());
    return part;
  }

 private:
  DMI_local_barrier_t local_{};
  bool is_made_ = false;
};

DMI_CXX_END

/* As that of the standard library, but a part of its caller (DMI_CXX_HERE). */
template <>
class std::lock_guard<dmi::mutex> {
 public:
  using mutex_type = dmi::mutex;
  DMI_CXX_HERE explicit lock_guard(mutex_type &mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  DMI_CXX_HERE lock_guard(mutex_type &mutex, std::adopt_lock_t) noexcept : mutex_(mutex) {
  }
  DMI_CXX_HERE ~lock_guard() {
    mutex_.unlock();
  }
  lock_guard(const lock_guard &) = delete;
  lock_guard &operator=(const lock_guard &) = delete;

 private:
  mutex_type &mutex_;
};

#endif
