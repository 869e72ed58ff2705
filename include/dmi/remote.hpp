/*
 * dmi/remote.hpp - remote functions whose data stays where it is (dmi_remote.h), as lambdas.
 * Included by dmi.hpp.
 *
 *   dmi::client client;
 *   dmi::data<double> a = client.put(numbers), b;
 *   client.call([](dmi::in<double> x, dmi::out<double> y) {...}, a, b.out(1000));
 *   dmi::data<double> sum = client.call([](dmi::in<double> x) { return ...; }, b);
 *   printf("%g\n", sum.get());
 */
#ifndef DMI_REMOTE_HPP
#define DMI_REMOTE_HPP

#include <vector>

#include "dmi/function.hpp"
#include "dmi/memory.hpp"
#include "dmi_remote.h"

DMI_CXX_BEGIN

#ifndef DMI_NO_EXCEPTIONS
/* A value cannot be had, as a call has failed: failure() says which, where and why. */
class remote_error : public error {
 public:
  explicit remote_error(const DMI_failure_t &failure)
      : error("DMI_data_read", DMI_EREMOTE,
              std::string(": ") + failure.function + " on " + failure.hostname + ": " +
                  failure.sentence),
        failure_(failure) {
  }
  const DMI_failure_t &failure() const noexcept {
    return failure_;
  }

 private:
  DMI_failure_t failure_;
};
#endif

/* Where a call puts what it makes: data.out(n). */
template <class T>
class data;
template <class T>
struct output {
  data<T> &to;
  int64_t num;
};
template <class T>
struct changed {
  data<T> &what;
};

/*
 * The name of a value, of any number of elements, which may not be there yet.  A copy of it is
 * another name of the same value; the value is freed when it has no name any more, and no call
 * needs it.  Use it only while its client is open.
 */
template <class T>
class data {
 public:
  data() noexcept = default;
  data(DMI_client_t *client, DMI_data_t name, int64_t size) noexcept
      : client_(client), name_(name), size_(size) {
  }
  data(const data &other) : client_(other.client_), size_(other.size_) {
    if (!client_) return;
    name_ = DMI_data_copy(client_, other.name_);
    if (!detail::constructs(
            name_.dmi_private[0] != 0 || name_.dmi_private[1] != 0 ? DMI_TRUE : DMI_FALSE,
            "DMI_data_copy"))
      client_ = nullptr;
  }
  data(data &&other) noexcept : client_(other.client_), name_(other.name_), size_(other.size_) {
    other.client_ = nullptr;
  }
  data &operator=(data other) noexcept {
    std::swap(client_, other.client_);
    std::swap(name_, other.name_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~data() {
    if (client_) DMI_data_drop(client_, name_);
  }

  explicit operator bool() const noexcept {
    return client_ != nullptr;
  }
  int64_t size() const noexcept {
    return size_;
  }

  /* As an argument of a call that makes it, with so many elements; or that changes it. */
  output<T> out(int64_t num = 1) noexcept {
    return {*this, num};
  }
  changed<T> inout() noexcept {
    return {*this};
  }

  /* These wait until it is there.  With exceptions they throw remote_error when the call has failed
   * that was to make it; else DMI_EREMOTE is the error, and failure() tells of it. */
  outcome<T> get(int64_t i = 0) const {
    T value;
    if (!DMI_data_read(client_, name_, &value, i * detail::size_of<T>(), detail::size_of<T>(),
                       nullptr))
      return failed<T>();
    return value;
  }
  outcome<std::vector<T>> read() const {
    std::vector<T> all(static_cast<std::size_t>(size_));
    if (!DMI_data_read(client_, name_, all.data(), 0, size_ * detail::size_of<T>(), nullptr))
      return failed<std::vector<T>>();
    return all;
  }
  outcome<void> read_to(T *to, int64_t first, int64_t num) const {
    if (!DMI_data_read(client_, name_, to, first * detail::size_of<T>(), num * detail::size_of<T>(),
                       nullptr))
      return failed<void>();
    return detail::done();
  }
  outcome<void> wait() const {
    return read_to(nullptr, 0, 0);
  }
  /* Why it cannot be made; nothing when it is there. */
  std::optional<DMI_failure_t> failure() const {
    DMI_failure_t why;
    if (!DMI_data_failure(client_, name_, &why)) return std::nullopt;
    return why;
  }

  /* For client. */
  DMI_client_t *client() const noexcept {
    return client_;
  }
  const DMI_data_t &name() const noexcept {
    return name_;
  }
  DMI_data_t *name_ptr() noexcept {
    return &name_;
  }

 private:
  template <class R>
  outcome<R> failed() const {
    const int32_t code = DMI_errno();
#ifndef DMI_NO_EXCEPTIONS
    if (code == DMI_EREMOTE)
      if (const auto why = failure()) throw remote_error(*why);
#endif
    return detail::fail<R>("DMI_data_read", code);
  }
  DMI_client_t *client_ = nullptr;
  DMI_data_t name_{};
  int64_t size_ = 0;
};

namespace detail {

/* A parameter of a remote function: how it is given, and taken. */
template <class P>
struct parameter { /* by value */
  static_assert(std::is_trivially_copyable_v<P> && !std::is_pointer_v<P>,
                "an argument by value must be trivially copyable, and no pointer");
  P value;
  template <class A>
  parameter(const A &given) : value(static_cast<P>(given)) {
  }
  DMI_arg_t arg() {
    return dmi_arg_at(4, &value, size_of<P>());
  }
  void issued(DMI_client_t *) {
  }
  static P take(DMI_remote_t *call, int32_t i) {
    return *static_cast<const P *>(DMI_remote_value_of(call, i, size_of<P>()));
  }
};
template <class T>
struct parameter<in<T>> {
  DMI_data_t name;
  parameter(const data<T> &given) : name(given.name()) {
  }
  DMI_arg_t arg() {
    return DMI_IN(name);
  }
  void issued(DMI_client_t *) {
  }
  static in<T> take(DMI_remote_t *call, int32_t i) {
    int64_t bytes;
    const void *at = DMI_remote_in(call, i, &bytes);
    return in<T>(static_cast<const T *>(at), bytes / size_of<T>());
  }
};
template <class T>
struct parameter<inout<T>> {
  data<T> &what;
  parameter(changed<T> given) : what(given.what) {
  }
  DMI_arg_t arg() {
    return DMI_INOUT(what.name_ptr());
  }
  void issued(DMI_client_t *) {
  }
  static inout<T> take(DMI_remote_t *call, int32_t i) {
    int64_t bytes;
    void *at = DMI_remote_inout(call, i, &bytes);
    return inout<T>(static_cast<T *>(at), bytes / size_of<T>());
  }
};
template <class T>
struct parameter<out<T>> {
  output<T> given;
  DMI_data_t name{};
  parameter(output<T> to) : given(to) {
    check_type<T>();
  }
  DMI_arg_t arg() {
    int64_t bytes;
    if (__builtin_mul_overflow(given.num, size_of<T>(), &bytes)) bytes = -1;
    return DMI_OUT(&name, bytes);
  }
  void issued(DMI_client_t *client) {
    given.to = data<T>(client, name, given.num);
  }
  static out<T> take(DMI_remote_t *call, int32_t i) {
    int64_t bytes;
    void *at = DMI_remote_out(call, i, &bytes);
    return out<T>(static_cast<T *>(at), bytes / size_of<T>());
  }
};

/* A lambda as the library calls it. */
template <class F, class P = typename signature<F>::parameters>
struct remote_function;
template <class F, class... P>
struct remote_function<F, std::tuple<P...>> {
  using returns = typename signature<F>::result;
  using arguments = std::tuple<parameter<P>...>;

  static void run(DMI_remote_t *call) {
    run_with(call, std::index_sequence_for<P...>());
  }
  static const bool registered;

 private:
  /* The library leaves take() at once when an argument is of another kind. */
  template <std::size_t... I>
  static void run_with(DMI_remote_t *call, std::index_sequence<I...>) {
    std::tuple<P...> taken{parameter<P>::take(call, static_cast<int32_t>(I))...};
#ifdef __cpp_exceptions
    try {
      apply(call, taken);
    } catch (const std::exception &known) {
      DMI_remote_fail(call, known.what());
    } catch (...) {
      DMI_remote_fail(call, "an exception that is no std::exception");
    }
#else
    apply(call, taken);
#endif
  }
  static void apply([[maybe_unused]] DMI_remote_t *call, const std::tuple<P...> &taken) {
    if constexpr (std::is_void_v<returns>) {
      std::apply(the_lambda<F>(), taken);
    } else {
      const returns value = std::apply(the_lambda<F>(), taken);
      std::memcpy(DMI_remote_out(call, static_cast<int32_t>(sizeof...(P)), nullptr), &value,
                  sizeof(value));
    }
  }
  static bool enter() {
    static const std::string name = name_of<F>(reinterpret_cast<uintptr_t>(&run));
    DMI_remote_register(name.c_str(), run);
    return true;
  }
};
template <class F, class... P>
const bool remote_function<F, std::tuple<P...>>::registered = enter();

}  // namespace detail

/* How a client is opened: DMI_client_options_t. */
inline DMI_client_options_t begin_with(int32_t processes) {
  DMI_client_options_t options{};
  options.processes = processes;
  return options;
}

/*
 * A client of remote functions, from here to the end of its life; then it waits until all its calls
 * are done.
 */
class client {
 public:
  explicit client(const DMI_client_options_t &options = {}) {
    if (!detail::constructs(DMI_client_open(&client_, &options), "DMI_client_open"))
      client_ = nullptr;
  }
  client(const client &) = delete;
  client &operator=(const client &) = delete;
  ~client() {
    if (client_) DMI_client_close(client_);
  }
  explicit operator bool() const noexcept {
    return client_ != nullptr;
  }
  DMI_client_t *handle() const noexcept {
    return client_;
  } /* for calls of C */

  template <class T>
  outcome<data<T>> put(const T *from, int64_t num) {
    detail::check_type<T>();
    const DMI_data_t name = DMI_data_put(client_, from, num * detail::size_of<T>());
    if (name.dmi_private[0] == 0 && name.dmi_private[1] == 0)
      return detail::fail<data<T>>("DMI_data_put", DMI_errno());
    return data<T>(client_, name, num);
  }
  template <class T>
  outcome<data<T>> put(const std::vector<T> &from) {
    return put(from.data(), static_cast<int64_t>(from.size()));
  }

  /*
   * Calls a lambda without captures, which runs where its inputs are, when they are there; returns
   * at once, with the name of its result if it has one.  Its parameters say what it is given:
   *
   *   dmi::in<T>       data<T>                the elements; they are only read
   *   dmi::out<T>      data.out(n)            n elements, which it makes
   *   dmi::inout<T>    data.inout()           elements that it changes
   *   others           a value
   */
  template <class F, class... A>
  auto call(F, A &&...given) {
    return call_of<F>(std::forward<A>(given)...);
  }
  /* The same for a function: client.call<function>(...). */
  template <auto Function, class... A>
  auto call(A &&...given) {
    return call_of<detail::named<Function>>(std::forward<A>(given)...);
  }

 private:
  template <class F, class... A>
  auto call_of(A &&...given) {
    using function = detail::remote_function<F>;
    using returns = typename function::returns;
    using arguments = typename function::arguments;
    detail::check_lambda<F>();
    static_assert(std::tuple_size_v<arguments> == sizeof...(A),
                  "the call has another number of arguments than the lambda has parameters");
    (void)&function::registered;
    if constexpr (std::is_void_v<returns>) {
      arguments all(std::forward<A>(given)...);
      return issue(function::run, all, std::index_sequence_for<A...>());
    } else {
      detail::check_type<returns>();
      return call_for_result<returns, function>(std::forward<A>(given)...);
    }
  }
  template <class Returns, class Function, class... A>
  outcome<data<Returns>> call_for_result(A &&...given) {
    using arguments =
        decltype(std::tuple_cat(std::declval<typename Function::arguments>(),
                                std::declval<std::tuple<detail::parameter<out<Returns>>>>()));
    data<Returns> made;
    arguments all(std::forward<A>(given)..., made.out());
#ifdef DMI_NO_EXCEPTIONS
    auto done = issue(Function::run, all, std::make_index_sequence<sizeof...(A) + 1>());
    if (!done) return result<data<Returns>>::failed(done.error());
#else
    issue(Function::run, all, std::make_index_sequence<sizeof...(A) + 1>());
#endif
    return made;
  }
  template <class Arguments, std::size_t... I>
  outcome<void> issue(DMI_remote_function_t function, Arguments &all, std::index_sequence<I...>) {
    if (!DMI_call(client_, function, std::get<I>(all).arg()...))
      return detail::fail<void>("DMI_call", DMI_errno());
    (std::get<I>(all).issued(client_), ...);
    return detail::done();
  }
  DMI_client_t *client_ = nullptr;
};

DMI_CXX_END

#endif
