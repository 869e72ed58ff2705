/*
 * dmi/function.hpp - lambdas that other processes know by a name.  Included by dmi/farm.hpp and
 * dmi/remote.hpp; programs use only in, out and inout of it.
 *
 * A lambda without captures is nothing but its type.  The executable is the same in all processes:
 * the type's name, and how far its function is from the beginning of the file in which it is, are
 * the same, too.  Both together are the name.
 */
#ifndef DMI_FUNCTION_HPP
#define DMI_FUNCTION_HPP

#include <string>
#include <tuple>
#include <type_traits>

#include "dmi/error.hpp"

/* Where the executable, or the shared library with this code, begins: the linker's symbol. */
extern "C" const char __ehdr_start __attribute__((weak, visibility("hidden")));

DMI_CXX_BEGIN

/* What a function of this kind reads, makes, or changes in place: elements that are only there
 * until it returns. */
template <class T>
class in {
 public:
  in(const T *data, int64_t size) : data_(data), size_(size) {
  }
  const T *data() const noexcept {
    return data_;
  }
  int64_t size() const noexcept {
    return size_;
  }
  const T &operator[](int64_t i) const noexcept {
    return data_[i];
  }
  const T *begin() const noexcept {
    return data_;
  }
  const T *end() const noexcept {
    return data_ + size_;
  }

 private:
  const T *data_;
  int64_t size_;
};
template <class T>
class inout {
 public:
  inout(T *data, int64_t size) : data_(data), size_(size) {
  }
  T *data() const noexcept {
    return data_;
  }
  int64_t size() const noexcept {
    return size_;
  }
  T &operator[](int64_t i) const noexcept {
    return data_[i];
  }
  T *begin() const noexcept {
    return data_;
  }
  T *end() const noexcept {
    return data_ + size_;
  }

 private:
  T *data_;
  int64_t size_;
};
/* All zero when the function begins. */
template <class T>
class out : public inout<T> {
 public:
  using inout<T>::inout;
};

namespace detail {

template <class F>
std::string name_of(uintptr_t function) {
  const std::string pretty = __PRETTY_FUNCTION__; /* "... [with F = TYPE; ...]" */
  const std::size_t begin = pretty.find("F = ") + 4;
  char offset[32];
  snprintf(offset, sizeof(offset), "+0x%zx",
           static_cast<std::size_t>(function - reinterpret_cast<uintptr_t>(&__ehdr_start)));
  return pretty.substr(begin, pretty.find_last_of(']') - begin) + offset;
}

template <class F>
constexpr void check_lambda() {
  static_assert(std::is_class_v<F> && std::is_empty_v<F> && std::is_trivially_copyable_v<F>,
                "this must be a lambda without captures, as it runs in other processes: give it "
                "what it needs as arguments");
}

/* An object of such a type, of which no byte is used. */
template <class F>
const F &the_lambda() noexcept {
  alignas(F) static const char place[sizeof(F)] = {};
  return *reinterpret_cast<const F *>(place);
}

/* A function as if it were a lambda. */
template <auto Function, class S = decltype(Function)>
struct named;
template <auto Function, class R, class... P>
struct named<Function, R (*)(P...)> {
  R operator()(P... given) const {
    return Function(given...);
  }
};

/* Result and parameters of a lambda. */
template <class M>
struct signature_of;
template <class F, class R, class... P>
struct signature_of<R (F::*)(P...) const> {
  using result = R;
  using parameters = std::tuple<std::decay_t<P>...>;
};
template <class F, class R, class... P>
struct signature_of<R (F::*)(P...) const noexcept> : signature_of<R (F::*)(P...) const> {};
template <class F>
using signature = signature_of<decltype(&F::operator())>;

}  // namespace detail
DMI_CXX_END

#endif
