/*
 * dmi/error.hpp - how a call of C++ fails: it throws dmi::error; or, with DMI_NO_EXCEPTIONS defined
 * before dmi.hpp (or -fno-exceptions), it returns a dmi::result.  Included by dmi.hpp.
 */
#ifndef DMI_ERROR_HPP
#define DMI_ERROR_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "dmi.hpp needs C++17: dmicxx asks for it; with another compiler command use -std=c++17"
#endif

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "dmi_ext.h"

#if !defined(__cpp_exceptions) && !defined(DMI_NO_EXCEPTIONS)
#define DMI_NO_EXCEPTIONS 1
#endif

/* Files of one program may differ in this: so the two are different types. */
#ifdef DMI_NO_EXCEPTIONS
#define DMI_CXX_BEGIN \
  namespace dmi {     \
  inline namespace codes {
#else
#define DMI_CXX_BEGIN \
  namespace dmi {     \
  inline namespace throws {
#endif
#define DMI_CXX_END \
  }                 \
  }

/* Of functions that make calls of C: without optimization they are a part of their caller, too, so
 * that who looks at a program sees the line of the program, and not one of these headers. */
#define DMI_CXX_HERE [[gnu::always_inline]] inline

DMI_CXX_BEGIN

namespace detail {

/* Why the call of C that has just failed with this error did so. */
inline const char *reason(int32_t code) {
  return code == DMI_errno() ? DMI_error_reason() : DMI_strerror(code);
}

}  // namespace detail

/* A call of DMI has failed: code() is what DMI_errno() says, what() names the call and tells why it
 * has failed, as DMI_error_reason() does. */
class error : public std::runtime_error {
 public:
  /* The last call of C of this thread has failed. */
  error(const char *call, int32_t code) : error(call, code, detail::reason(code)) {
  }
  error(const char *call, int32_t code, const std::string &reason)
      : std::runtime_error(std::string(call) + ": " + DMI_strerrorname(code) + ": " + reason),
        code_(code) {
  }
  int32_t code() const noexcept {
    return code_;
  }

 private:
  int32_t code_;
};

/* What a call gives with DMI_NO_EXCEPTIONS: a value, or an error. */
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)), error_(DMI_OK) {
  }
  static result failed(int32_t code) {
    return result(nothing(), code);
  }
  explicit operator bool() const noexcept {
    return error_ == DMI_OK;
  }
  int32_t error() const noexcept {
    return error_;
  } /* DMI_OK, or as DMI_errno() */
  /* Only when it has not failed. */
  T &value() & {
    return *value_;
  }
  T &&value() && {
    return std::move(*value_);
  }
  const T &value() const & {
    return *value_;
  }
  T &operator*() & {
    return *value_;
  }
  const T &operator*() const & {
    return *value_;
  }
  T *operator->() {
    return &*value_;
  }

 private:
  struct nothing {};
  result(nothing, int32_t code) : error_(code) {
  }
  std::optional<T> value_;
  int32_t error_;
};

template <>
class [[nodiscard]] result<void> {
 public:
  result() = default;
  static result failed(int32_t code) {
    result all;
    all.error_ = code;
    return all;
  }
  explicit operator bool() const noexcept {
    return error_ == DMI_OK;
  }
  int32_t error() const noexcept {
    return error_;
  }
  void value() const {
  }

 private:
  int32_t error_ = DMI_OK;
};

/* What calls return. */
#ifdef DMI_NO_EXCEPTIONS
template <class T>
using outcome = result<T>;
#else
template <class T>
using outcome = T;
#endif

namespace detail {

/* For failures that no caller can be told of: prints a line, and aborts. */
[[noreturn]] inline void die(const char *call, int32_t code) {
  fprintf(stderr, "dmi: %s: %s: %s\n", call, DMI_strerrorname(code), reason(code));
  std::abort();
}

/* fail: the last call of C has failed.  refuse: there was none; say() makes the reason. */
#ifdef DMI_NO_EXCEPTIONS
template <class T>
outcome<T> fail(const char *, int32_t code) {
  return result<T>::failed(code);
}
template <class T, class Say>
outcome<T> refuse(const char *, int32_t code, Say) {
  return result<T>::failed(code);
}
inline outcome<void> done() {
  return {};
}
#else
template <class T>
[[noreturn, gnu::cold, gnu::noinline]] T fail(const char *call, int32_t code) {
  throw error(call, code);
}
template <class T, class Say>
[[noreturn, gnu::cold, gnu::noinline]] T refuse(const char *call, int32_t code, Say say) {
  throw error(call, code, say());
}
inline void done() {
}
#endif

/* What a call of C returned, as that of C++. */
inline outcome<void> check(int32_t ok, const char *call) {
  if (__builtin_expect(ok != DMI_TRUE, 0)) return fail<void>(call, DMI_errno());
  return done();
}

/* For constructors: with DMI_NO_EXCEPTIONS the object is empty, and DMI_errno() says why. */
inline bool constructs(int32_t ok, [[maybe_unused]] const char *call) {
#ifndef DMI_NO_EXCEPTIONS
  check(ok, call);
#endif
  return ok == DMI_TRUE;
}

}  // namespace detail

DMI_CXX_END

#endif
