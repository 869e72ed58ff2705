/*
 * dmi/guard.hpp - what becomes of an exception that leaves a function which the library has called.
 * Included by dmi.hpp.
 *
 * A line on stderr names the exception, host, process and thread, and lines below it show from
 * where it was thrown.  Then
 * - DMI_thread: the thread ends, and DMI_join gives dmi::uncaught (INT64_MIN);
 * - DMI_main, DMI_scaleunit: the program ends in order, in all processes, with status 1 (DMI_exit);
 * - DMI_init: this process ends with status 1;
 * - DMI_recover: it could not recover (DMI_FALSE);
 * - DMI_farm_task, the body of parallel_for: the task has failed, with status -1;
 * - a remote function: the call has failed, with what() for its sentence; no line is printed.
 * DMI_function, and functions that DMI_rescale and DMI_farm_run call back, must not throw: that
 * ends the process (std::terminate).
 *
 * The start object looks for the functions below, which are weak: a program without dmi.hpp has
 * none of them.
 */
#ifndef DMI_GUARD_HPP
#define DMI_GUARD_HPP

#include "dmi/farm.hpp"
#include "dmi/process.hpp"

#ifdef __cpp_exceptions

#include <cxxabi.h>
#include <typeinfo>

extern "C" {
#pragma weak DMI_thread
#pragma weak DMI_recover
#pragma weak DMI_init
#pragma weak DMI_farm_task
#pragma weak DMI_scaleunit
}

namespace dmi_cxx {

/* "std::runtime_error: the message", of the exception that is handled now. */
inline std::string describe(const std::type_info *type, const std::exception *known) {
  std::string text = "an exception";
  if (type) {
    int status;
    char *plain = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
    text = plain ? plain : type->name();
    free(plain);
    /* as programs call it: dmi::error */
    for (size_t at; (at = text.find("dmi::throws::")) != std::string::npos;)
      text.erase(at + 5, 8);
  }
  return known ? text + ": " + known->what() : text;
}

inline thread_local const char *function = nullptr; /* that the guard has called */

inline void report(const std::type_info *type, const std::exception *known) {
  DMI_backtrace(
      (std::string(function) + " threw an exception that nothing caught: " + describe(type, known))
          .c_str());
}

#ifdef __GLIBCXX__
/*
 * To tell from where it was thrown one has to look before the stack is unwound: while the runtime
 * of C++ searches for a handler.  Then it asks each type that is to be caught whether it matches:
 * here `probe`, whose type_info is an object of ours.  It is asked when there is no handler above,
 * reports, and does not match.
 */
struct probe {
  virtual ~probe();
};
struct probe_type : std::type_info {
  probe_type() : std::type_info("dmi_cxx::probe") {
  }
  bool __do_catch(const std::type_info *thrown, void **object, unsigned) const override {
    void *at = *object;
    const bool known = typeid(std::exception).__do_catch(thrown, &at, 1);
    report(thrown, known ? static_cast<const std::exception *>(at) : nullptr);
    return false;
  }
};
extern probe_type probe_info __asm__("_ZTIN7dmi_cxx5probeE");
__attribute__((weak)) probe_type probe_info;

#define DMI_CXX_CATCH              \
  catch (probe &) {                \
  }                                \
  catch (abi::__forced_unwind &) { \
    throw;                         \
  }                                \
  catch (...) {                    \
  }
#else
#define DMI_CXX_CATCH                                     \
  catch (const std::exception &known) {                   \
    report(abi::__cxa_current_exception_type(), &known);  \
  }                                                       \
  catch (...) {                                           \
    report(abi::__cxa_current_exception_type(), nullptr); \
  }
#endif

/* Calls `body`; gives `otherwise` when an exception leaves it. */
template <class R, class Body>
__attribute__((noinline)) R guarded(const char *name, R otherwise, Body body) {
  const char *const before = function;
  function = name;
  try {
    const R value = body();
    function = before;
    return value;
  }
  DMI_CXX_CATCH
  function = before;
  return otherwise;
}

}  // namespace dmi_cxx

/* ---- For the start object (lib/api/start.c) ---------------------------------------------------
 */

extern "C" {

void dmi_cxx_main(int argc, char **argv);
__attribute__((weak)) void dmi_cxx_main(int argc, char **argv) {
  const bool ok = dmi_cxx::guarded("DMI_main", false, [&] {
    DMI_main(argc, argv);
    return true;
  });
  if (!ok) (void)DMI_exit(EXIT_FAILURE);
}

int64_t dmi_cxx_thread(int64_t addr);
__attribute__((weak)) int64_t dmi_cxx_thread(int64_t addr) {
  return dmi_cxx::guarded("DMI_thread", dmi::uncaught, [&] { return DMI_thread(addr); });
}

void dmi_cxx_init(int argc, char **argv);
__attribute__((weak)) void dmi_cxx_init(int argc, char **argv) {
  const bool ok = dmi_cxx::guarded("DMI_init", false, [&] {
    DMI_init(argc, argv);
    return true;
  });
  if (!ok) exit(EXIT_FAILURE);
}

int32_t dmi_cxx_recover(int argc, char **argv, int32_t lost_id);
__attribute__((weak)) int32_t dmi_cxx_recover(int argc, char **argv, int32_t lost_id) {
  return dmi_cxx::guarded("DMI_recover", DMI_FALSE,
                          [&] { return DMI_recover(argc, argv, lost_id); });
}

int32_t dmi_cxx_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr);
__attribute__((weak)) int32_t dmi_cxx_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  int32_t value = DMI_FALSE;
  const bool ok = dmi_cxx::guarded("DMI_scaleunit", false, [&] {
    value = DMI_scaleunit(my_rank, pnum, scaleunit_addr);
    return true;
  });
  if (!ok) (void)DMI_exit(EXIT_FAILURE);
  return value;
}

int32_t dmi_cxx_farm_task(int64_t task, void *out, int64_t size, const void *job);
__attribute__((weak)) int32_t dmi_cxx_farm_task(int64_t task, void *out, int64_t size,
                                                const void *job) {
  const bool own = DMI_farm_task != nullptr;
  return dmi_cxx::guarded(own ? "DMI_farm_task" : "the body of parallel_for", -1, [&] {
    return own ? DMI_farm_task(task, out, size, job) : dmi_cxx::run_loop(task, out, size, job);
  });
}
}

#endif

extern "C" {

/* Of files without exceptions. */
int32_t dmi_cxx_plain_task(int64_t task, void *out, int64_t size, const void *job);
__attribute__((weak)) int32_t dmi_cxx_plain_task(int64_t task, void *out, int64_t size,
                                                 const void *job) {
  return DMI_farm_task ? DMI_farm_task(task, out, size, job)
                       : dmi_cxx::run_loop(task, out, size, job);
}

/* Does the program define, or use, such a farm? */
int dmi_cxx_has_tasks(void);
__attribute__((weak)) int dmi_cxx_has_tasks(void) {
  return DMI_farm_task != nullptr || dmi_cxx::loops != nullptr;
}
}

#endif
