/*
 * dmi/memory.hpp - global memory with types: ptr, array and view, local copies, future.  Included
 * by dmi.hpp.
 *
 * Types of elements are trivially copyable: their bytes are what is read and written.  What all
 * this costs is what the calls of C cost that it makes.
 */
#ifndef DMI_MEMORY_HPP
#define DMI_MEMORY_HPP

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include "dmi/error.hpp"

DMI_CXX_BEGIN

/* ---- Modes ---------------------------------------------------------------------------------- */

enum class read_mode : int8_t {
  invalidate = DMI_INVALIDATE_READ, /* keep the page here until somebody writes it */
  update = DMI_UPDATE_READ,         /* keep the page here and have writes sent to it */
  get = DMI_GET_READ                /* fetch just these bytes */
};
enum class write_mode : int8_t {
  exclusive = DMI_EXCLUSIVE_WRITE, /* become the owner of the page, then write */
  put = DMI_PUT_WRITE              /* send these bytes to the owner */
};
enum class atomic_mode : int8_t { exclusive = DMI_EXCLUSIVE_ATOMIC, put = DMI_PUT_ATOMIC };

inline constexpr read_mode invalidate = read_mode::invalidate;
inline constexpr read_mode update = read_mode::update;
inline constexpr read_mode get = read_mode::get;

/* For writes, and for read-modify-writes. */
struct exclusive_t {
  constexpr operator write_mode() const {
    return write_mode::exclusive;
  }
  constexpr operator atomic_mode() const {
    return atomic_mode::exclusive;
  }
};
struct put_t {
  constexpr operator write_mode() const {
    return write_mode::put;
  }
  constexpr operator atomic_mode() const {
    return atomic_mode::put;
  }
};
inline constexpr exclusive_t exclusive{};
inline constexpr put_t put{};

namespace detail {

template <class T>
constexpr void check_type() {
  static_assert(std::is_trivially_copyable_v<T>,
                "a type in global memory must be trivially copyable: its bytes are all that other "
                "processes get (no std::string, no std::vector, no virtual functions)");
  static_assert(!std::is_pointer_v<T> && !std::is_reference_v<T>,
                "a pointer means nothing in another process: use dmi::ptr");
}

/* Bytes are compared: there must be none that mean nothing. */
template <class T>
constexpr void check_comparable() {
  static_assert(std::has_unique_object_representations_v<T> || std::is_same_v<T, float> ||
                    std::is_same_v<T, double>,
                "compare_exchange compares bytes, but this type has padding");
}

template <class T>
constexpr int64_t size_of() {
  return static_cast<int64_t>(sizeof(T));
}

/* What is to be said of pages of so many bytes. */
inline std::string does_not_fit(int64_t page, int64_t element) {
  const int64_t fits = element * (page > element ? page / element : 1);
  return "elements of " + std::to_string(element) + " bytes do not fit pages of " +
         std::to_string(page) + " bytes; a page must have a whole number of them, such as " +
         std::to_string(fits) + " bytes";
}

/* What is to be said of a range that an array does not have. */
inline std::string not_there(int64_t begin, int64_t end, int64_t size) {
  const std::string range = std::to_string(begin) + " to " + std::to_string(end);
  return begin > end ? "the end is before the begin: elements " + range
                     : "elements " + range + " of " + std::to_string(size);
}

}  // namespace detail

/* ---- Futures -------------------------------------------------------------------------------- */

/*
 * An asynchronous call.  get() waits for its end and gives its value, or throws; ready() asks
 * without waiting.  At the end of its life a future waits, too, as the call may still store its
 * value.
 */
template <class T>
class [[nodiscard]] future {
 public:
  future() = default;
  future(future &&) noexcept = default;
  future &operator=(future &&other) noexcept {
    finish();
    state_ = std::move(other.state_);
    return *this;
  }
  DMI_CXX_HERE ~future() {
    finish();
  }

  explicit operator bool() const noexcept {
    return state_ != nullptr;
  } /* not moved away */
  bool ready() {
    return DMI_check(&state_->status, nullptr) == DMI_TRUE;
  }
  DMI_CXX_HERE void wait() {
    DMI_wait(&state_->status, nullptr);
  }
  DMI_CXX_HERE outcome<T> get() {
    int32_t ok;
    DMI_wait(&state_->status, &ok);
    if constexpr (std::is_void_v<T>) {
      return detail::check(ok, state_->call);
    } else {
      if (ok != DMI_TRUE) return detail::fail<T>(state_->call, DMI_errno());
      return state_->value;
    }
  }

  /* For the calls below: start(value, status) makes the call of C. */
  template <class Start>
  DMI_CXX_HERE static outcome<future> begin(const char *call, Start start) {
    future made;
    made.state_ = std::make_unique<state>();
    made.state_->call = call;
    if (start(&made.state_->value, &made.state_->status) != DMI_TRUE) {
      made.state_.reset();
      return detail::fail<future>(call, DMI_errno());
    }
    return made;
  }

 private:
  struct state {
    DMI_local_status_t status;
    const char *call;
    std::conditional_t<std::is_void_v<T>, char, T> value;
  };
  DMI_CXX_HERE void finish() {
    if (state_) DMI_wait(&state_->status, nullptr);
  }
  std::unique_ptr<state> state_;
};

/* ---- Pointers ------------------------------------------------------------------------------- */

/*
 * The global address of a T, as large as an int64_t: it may be stored in global memory, too.  What
 * takes no mode uses those that move no page: get, put.
 */
template <class T>
class ptr {
 public:
  using value_type = std::remove_const_t<T>;

  constexpr ptr() noexcept = default;
  constexpr ptr(std::nullptr_t) noexcept {
  }
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  constexpr explicit ptr(I address) noexcept : address_(static_cast<int64_t>(address)) {
  } /* also a literal 0, which would be a nullptr, too */
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
  constexpr ptr(ptr<U> other) noexcept : address_(other.address()) {
  }

  constexpr int64_t address() const noexcept {
    return address_;
  } /* for calls of C */
  constexpr explicit operator bool() const noexcept {
    return address_ != DMI_NULL;
  }
  template <class U>
  constexpr ptr<U> as() const noexcept {
    return ptr<U>(address_);
  } /* the same bytes, as a U */

  /* Element `i` from here. */
  constexpr ptr operator[](int64_t i) const noexcept {
    return *this + i;
  }
  /* The address of a member: p.member(&job::count).  Of an array: that of its first element. */
  template <class M, class C>
  ptr<std::remove_all_extents_t<M>> member(M C::*which) const noexcept {
    static_assert(std::is_same_v<C, value_type> || std::is_base_of_v<C, value_type>,
                  "this is no member of the type that the pointer points to");
    static_assert(std::is_standard_layout_v<value_type>,
                  "members of a type in global memory have addresses when it has standard layout");
    static_assert(sizeof(which) == sizeof(std::ptrdiff_t), "the ABI of Itanium C++");
    std::ptrdiff_t offset; /* that is what a pointer to a member is */
    std::memcpy(&offset, &which, sizeof(offset));
    return ptr<std::remove_all_extents_t<M>>(address_ + offset);
  }

  /* ---- Reading and writing ---- */

  DMI_CXX_HERE outcome<value_type> load(read_mode mode = get) const {
    detail::check_type<value_type>();
    static_assert(std::is_default_constructible_v<value_type>, "load makes a T, and fills it");
    value_type value;
    if (__builtin_expect(!read(&value, 1, mode, nullptr), 0))
      return detail::fail<value_type>("DMI_read", DMI_errno());
    return value;
  }
  DMI_CXX_HERE outcome<void> store(const value_type &value, write_mode mode = put) const {
    return detail::check(write(&value, 1, mode, nullptr), "DMI_write");
  }
  /* `num` elements from here; all must be in one mapping. */
  DMI_CXX_HERE outcome<void> load_to(value_type *to, int64_t num, read_mode mode = get) const {
    return detail::check(read(to, num, mode, nullptr), "DMI_read");
  }
  DMI_CXX_HERE outcome<void> store_from(const value_type *from, int64_t num,
                                        write_mode mode = put) const {
    return detail::check(write(from, num, mode, nullptr), "DMI_write");
  }

  DMI_CXX_HERE outcome<future<value_type>> load_async(read_mode mode = get) const {
    return future<value_type>::begin(
        "DMI_read", [&](value_type * value, DMI_local_status_t * status)
                        __attribute__((always_inline)) { return read(value, 1, mode, status); });
  }
  /* What it stores into must live as long as the future. */
  DMI_CXX_HERE outcome<future<void>> load_to_async(value_type *to, int64_t num,
                                                   read_mode mode = get) const {
    return future<void>::begin(
        "DMI_read", [&](char *, DMI_local_status_t *status)
                        __attribute__((always_inline)) { return read(to, num, mode, status); });
  }
  DMI_CXX_HERE outcome<future<void>> store_async(const value_type &value,
                                                 write_mode mode = put) const {
    return store_from_async(&value, 1, mode);
  }
  /* The elements may be used again at once. */
  DMI_CXX_HERE outcome<future<void>> store_from_async(const value_type *from, int64_t num,
                                                      write_mode mode = put) const {
    return future<void>::begin(
        "DMI_write", [&](char *, DMI_local_status_t *status)
                         __attribute__((always_inline)) { return write(from, num, mode, status); });
  }

  /* ---- Read-modify-write: one step at the owner ---- */

  /* Adds, and gives what was there before. */
  DMI_CXX_HERE outcome<value_type> fetch_add(value_type add, atomic_mode mode = put) const {
    check_number();
    int64_t old = 0;
    if (!fad(add, &old, mode, nullptr)) return detail::fail<value_type>("DMI_fad", DMI_errno());
    return static_cast<value_type>(old);
  }
  DMI_CXX_HERE outcome<future<int64_t>> fetch_add_async(value_type add,
                                                        atomic_mode mode = put) const {
    check_number();
    return future<int64_t>::begin(
        "DMI_fad", [&](int64_t * old, DMI_local_status_t * status)
                       __attribute__((always_inline)) { return fad(add, old, mode, status); });
  }
  /* Stores, and gives what was there before. */
  DMI_CXX_HERE outcome<value_type> exchange(const value_type &value, atomic_mode mode = put) const {
    check_writable();
    value_type old;
    if (!DMI_fas(address_, detail::size_of<T>(), &value, &old, static_cast<int8_t>(mode), nullptr))
      return detail::fail<value_type>("DMI_fas", DMI_errno());
    return old;
  }
  /* Stores `desired` if `expected` is there: true then.  Else `expected` becomes what is there
   * instead, as with std::atomic, so that a loop needs no load of its own. */
  DMI_CXX_HERE outcome<bool> compare_exchange(value_type &expected, const value_type &desired,
                                              atomic_mode mode = put) const {
    check_writable();
    detail::check_comparable<value_type>();
    value_type now = expected;
    do { /* until they differ: others may have written in between */
      int8_t same = 0;
      if (!DMI_cas(address_, detail::size_of<T>(), &expected, &desired, &same,
                   static_cast<int8_t>(mode), nullptr))
        return detail::fail<bool>("DMI_cas", DMI_errno());
      if (same == DMI_TRUE) return true;
      if (!read(&now, 1, get, nullptr)) return detail::fail<bool>("DMI_read", DMI_errno());
    } while (std::memcmp(&now, &expected, sizeof(now)) == 0);
    expected = now;
    return false;
  }
  /* Waits until something else than `old` is there, and gives that. */
  DMI_CXX_HERE outcome<value_type> wait_change(const value_type &old) const {
    detail::check_type<value_type>();
    value_type value;
    if (!DMI_watch(address_, detail::size_of<T>(), &old, &value, nullptr))
      return detail::fail<value_type>("DMI_watch", DMI_errno());
    return value;
  }

  /* ---- Arithmetic ---- */

  constexpr ptr &operator+=(int64_t n) noexcept {
    address_ += n * detail::size_of<T>();
    return *this;
  }
  constexpr ptr &operator-=(int64_t n) noexcept {
    return *this += -n;
  }
  constexpr ptr &operator++() noexcept {
    return *this += 1;
  }
  constexpr ptr &operator--() noexcept {
    return *this += -1;
  }
  constexpr ptr operator++(int) noexcept {
    const ptr old = *this;
    *this += 1;
    return old;
  }
  constexpr ptr operator--(int) noexcept {
    const ptr old = *this;
    *this += -1;
    return old;
  }
  friend constexpr ptr operator+(ptr p, int64_t n) noexcept {
    return p += n;
  }
  friend constexpr ptr operator+(int64_t n, ptr p) noexcept {
    return p += n;
  }
  friend constexpr ptr operator-(ptr p, int64_t n) noexcept {
    return p -= n;
  }
  friend constexpr int64_t operator-(ptr a, ptr b) noexcept {
    return (a.address_ - b.address_) / detail::size_of<T>();
  }
  friend constexpr bool operator==(ptr a, ptr b) noexcept {
    return a.address_ == b.address_;
  }
  friend constexpr bool operator!=(ptr a, ptr b) noexcept {
    return a.address_ != b.address_;
  }
  friend constexpr bool operator<(ptr a, ptr b) noexcept {
    return a.address_ < b.address_;
  }
  friend constexpr bool operator>(ptr a, ptr b) noexcept {
    return a.address_ > b.address_;
  }
  friend constexpr bool operator<=(ptr a, ptr b) noexcept {
    return a.address_ <= b.address_;
  }
  friend constexpr bool operator>=(ptr a, ptr b) noexcept {
    return a.address_ >= b.address_;
  }

 private:
  static constexpr void check_writable() {
    detail::check_type<value_type>();
    static_assert(!std::is_const_v<T>, "this pointer is to const: it only reads");
  }
  static constexpr void check_number() {
    check_writable();
    static_assert(std::is_integral_v<value_type> && sizeof(value_type) == 8,
                  "fetch_add adds to integers of 8 bytes (DMI_fad): int64_t or uint64_t");
  }
  /* Bytes of `num` elements; negative, which is an error, if they are too many. */
  static int64_t bytes(int64_t num) {
    int64_t size;
    return __builtin_mul_overflow(num, detail::size_of<T>(), &size) ? -1 : size;
  }
  DMI_CXX_HERE int32_t read(value_type *to, int64_t num, read_mode mode,
                            DMI_local_status_t *status) const {
    detail::check_type<value_type>();
    return DMI_read(address_, bytes(num), to, static_cast<int8_t>(mode), status);
  }
  DMI_CXX_HERE int32_t write(const value_type *from, int64_t num, write_mode mode,
                             DMI_local_status_t *status) const {
    check_writable();
    return DMI_write(address_, bytes(num), from, static_cast<int8_t>(mode), status);
  }
  DMI_CXX_HERE int32_t fad(value_type add, int64_t *old, atomic_mode mode,
                           DMI_local_status_t *status) const {
    return DMI_fad(address_, static_cast<int64_t>(add), old, static_cast<int8_t>(mode), status);
  }

  int64_t address_ = DMI_NULL;
};

/* ---- Local copies --------------------------------------------------------------------------- */

/*
 * A copy of some elements in local memory, which is written back at the end of its life, if it was
 * made for that (view::edit, view::make).
 *
 * It is not written back when the scope is left by an exception, nor after discard().  write_back()
 * does so before, and tells of a failure; at the end of its life a failure throws, too (with
 * DMI_NO_EXCEPTIONS it prints a line, and aborts).
 */
template <class T>
class local {
 public:
  local(ptr<T> at, int64_t num) : at_(at), num_(num) {
    void *memory;
    if constexpr (alignof(T) > alignof(std::max_align_t))
      memory = std::aligned_alloc(alignof(T), bytes());
    else
      memory = std::malloc(bytes()); /* operator new would take longer */
    if (!memory && num > 0) no_memory();
    data_ = static_cast<T *>(memory);
  }
  local(local &&other) noexcept
      : at_(other.at_),
        num_(other.num_),
        data_(other.data_),
        writes_(other.writes_),
        mode_(other.mode_),
        exceptions_(other.exceptions_) {
    other.data_ = nullptr;
    other.writes_ = false;
  }
  local &operator=(local &&) = delete;
  DMI_CXX_HERE ~local() noexcept(false) {
    struct freeing {
      T *data;
      ~freeing() {
        std::free(data);
      }
    } frees{data_};
    if (!writes_ || std::uncaught_exceptions() > exceptions_) return;
#ifdef DMI_NO_EXCEPTIONS
    if (auto wrote = write_back(); !wrote) detail::die("DMI_write", wrote.error());
#else
    write_back();
#endif
  }

  T *data() noexcept {
    return data_;
  }
  const T *data() const noexcept {
    return data_;
  }
  int64_t size() const noexcept {
    return num_;
  }
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  T &operator[](I i) noexcept {
    return data_[i];
  }
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  const T &operator[](I i) const noexcept {
    return data_[i];
  }
  T *begin() noexcept {
    return data_;
  }
  T *end() noexcept {
    return data_ + num_;
  }
  const T *begin() const noexcept {
    return data_;
  }
  const T *end() const noexcept {
    return data_ + num_;
  }

  /* Writes the elements now, and no more at the end of its life. */
  DMI_CXX_HERE outcome<void> write_back() {
    writes_ = false;
    return at_.store_from(data_, num_, mode_);
  }
  void discard() noexcept {
    writes_ = false;
  } /* writes nothing */

  /* For view. */
  void writes_back(write_mode mode) noexcept {
    writes_ = true;
    mode_ = mode;
    exceptions_ = std::uncaught_exceptions();
  }
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(num_) * sizeof(T);
  }

 private:
  [[noreturn]] static void no_memory() {
#ifdef DMI_NO_EXCEPTIONS
    detail::die("dmi::local", DMI_ENOMEM);
#else
    throw std::bad_alloc();
#endif
  }

  ptr<T> at_;
  int64_t num_;
  T *data_;
  bool writes_ = false;
  write_mode mode_ = write_mode::put;
  int exceptions_ = 0; /* that were on their way when writes_back was called */
};

/* ---- Arrays --------------------------------------------------------------------------------- */

/* The size of a page: so many elements, or so many bytes; with page<BYTES> the compiler checks that
 * whole elements fit. */
struct elements {
  explicit constexpr elements(int64_t n) : num(n) {
  }
  int64_t num;
};
struct bytes {
  explicit constexpr bytes(int64_t n) : num(n) {
  }
  int64_t num;
};
template <int64_t Bytes>
struct page {};

/*
 * Some elements of global memory, whoever owns it, with the modes in which they are used when a
 * call names none.  It may be stored in global memory, and given to other processes.
 */
template <class T>
class view {
 public:
  using value_type = std::remove_const_t<T>;

  constexpr view() noexcept = default;
  constexpr view(ptr<T> first, int64_t size, read_mode reads = get,
                 write_mode writes = put) noexcept
      : first_(first), size_(size), reads_(reads), writes_(writes) {
  }

  template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
  constexpr view(const view<U> &other) noexcept
      : view(other.data(), other.size(), other.reads(), other.writes()) {
  }

  constexpr explicit operator bool() const noexcept {
    return static_cast<bool>(first_);
  }
  constexpr int64_t size() const noexcept {
    return size_;
  }
  constexpr ptr<T> data() const noexcept {
    return first_;
  }
  constexpr ptr<T> operator[](int64_t i) const noexcept {
    return first_ + i;
  }
  constexpr read_mode reads() const noexcept {
    return reads_;
  }
  constexpr write_mode writes() const noexcept {
    return writes_;
  }
  /* The same elements, used in other modes. */
  constexpr view with(read_mode reads, write_mode writes) const noexcept {
    return view(first_, size_, reads, writes);
  }
  /* Elements begin to end - 1; DMI_ERANGE when there are no such. */
  outcome<view> part(int64_t begin, int64_t end) const {
    if (!has(begin, end)) return refuse<view>("dmi::view::part", begin, end);
    return view(first_ + begin, end - begin, reads_, writes_);
  }

  /* A copy that is only read. */
  DMI_CXX_HERE outcome<local<value_type>> read(int64_t begin, int64_t end, read_mode mode) const {
    return copy(begin, end, &mode, nullptr);
  }
  DMI_CXX_HERE outcome<local<value_type>> read(int64_t begin, int64_t end) const {
    return read(begin, end, reads_);
  }
  DMI_CXX_HERE outcome<local<value_type>> read() const {
    return read(0, size_);
  }
  /* A copy that is written back. */
  DMI_CXX_HERE outcome<local<value_type>> edit(int64_t begin, int64_t end, read_mode mode,
                                               write_mode back) const {
    return copy(begin, end, &mode, &back);
  }
  DMI_CXX_HERE outcome<local<value_type>> edit(int64_t begin, int64_t end) const {
    return edit(begin, end, reads_, writes_);
  }
  /* Zeros, which are not read, but written back. */
  DMI_CXX_HERE outcome<local<value_type>> make(int64_t begin, int64_t end, write_mode back) const {
    return copy(begin, end, nullptr, &back);
  }
  DMI_CXX_HERE outcome<local<value_type>> make(int64_t begin, int64_t end) const {
    return make(begin, end, writes_);
  }

 private:
  bool has(int64_t begin, int64_t end) const noexcept {
    return 0 <= begin && begin <= end && end <= size_;
  }
  template <class R>
  outcome<R> refuse(const char *call, int64_t begin, int64_t end) const {
    return detail::refuse<R>(call, DMI_ERANGE,
                             [&] { return detail::not_there(begin, end, size_); });
  }
  DMI_CXX_HERE outcome<local<value_type>> copy(int64_t begin, int64_t end, const read_mode *read,
                                               const write_mode *write) const {
    using made = local<value_type>;
    detail::check_type<value_type>();
    static_assert(!std::is_const_v<T> || std::is_same_v<made, local<value_type>>);
    if (!has(begin, end)) return refuse<made>("dmi::view", begin, end);
    const ptr<value_type> at((first_ + begin).address());
    made copy(at, end - begin);
    if (!read) {
      std::memset(static_cast<void *>(copy.data()), 0, copy.bytes());
    } else if (!DMI_read(at.address(), static_cast<int64_t>(copy.bytes()), copy.data(),
                         static_cast<int8_t>(*read), nullptr)) {
      return detail::fail<made>("DMI_read", DMI_errno());
    }
    if (write) copy.writes_back(*write);
    return copy;
  }

  ptr<T> first_;
  int64_t size_ = 0;
  read_mode reads_ = read_mode::get;
  write_mode writes_ = write_mode::put;
};

/*
 * A mapping of its own (DMI_mmap), which ends with the object (DMI_munmap).  It is a view, too:
 * other processes get a copy of that.
 *
 *   dmi::array<double> a(1000000, dmi::elements(4096));         4096 elements in a page
 *   dmi::array<double> b(1000000, dmi::page<32768>());          as many, checked by the compiler
 */
template <class T>
class array : public view<T> {
 public:
  array() noexcept = default;
  DMI_CXX_HERE array(int64_t size, elements page, read_mode reads = get, write_mode writes = put) {
    map(size, page.num, reads, writes);
  }
  template <int64_t Bytes>
  DMI_CXX_HERE array(int64_t size, page<Bytes>, read_mode reads = get, write_mode writes = put) {
    static_assert(Bytes >= detail::size_of<T>() && Bytes % detail::size_of<T>() == 0,
                  "a page must hold whole elements: its bytes must be a multiple of the type's");
    map(size, Bytes / detail::size_of<T>(), reads, writes);
  }
  /* DMI_ESIZE unless whole elements fit into a page. */
  DMI_CXX_HERE array(int64_t size, bytes page, read_mode reads = get, write_mode writes = put) {
    const bool fits = page.num % detail::size_of<T>() == 0;
#ifndef DMI_NO_EXCEPTIONS
    if (!fits || page.num <= 0)
      throw error("dmi::array", DMI_ESIZE, detail::does_not_fit(page.num, detail::size_of<T>()));
#endif
    map(size, fits ? page.num / detail::size_of<T>() : 0, reads, writes);
  }
  array(array &&other) noexcept : view<T>(other), page_(other.page_) {
    other.release();
  }
  array &operator=(array &&other) noexcept {
    if (this != &other) {
      unmap();
      static_cast<view<T> &>(*this) = other;
      page_ = other.page_;
      other.release();
    }
    return *this;
  }
  DMI_CXX_HERE ~array() {
    unmap();
  }

  int64_t page_elements() const noexcept {
    return page_;
  }
  /* From now on the mapping stays. */
  view<T> release() noexcept {
    const view<T> all = *this;
    static_cast<view<T> &>(*this) = view<T>();
    return all;
  }

 private:
  DMI_CXX_HERE void map(int64_t size, int64_t page_elements, read_mode reads, write_mode writes) {
    detail::check_type<T>();
    static_assert(!std::is_const_v<T>, "who makes an array writes it");
    int64_t address, page_bytes = 0;
    const bool fits = size > 0 && page_elements > 0 &&
                      !__builtin_mul_overflow(page_elements, detail::size_of<T>(), &page_bytes);
    const int64_t pages = fits ? (size - 1) / page_elements + 1 : 0; /* 0: DMI_ESIZE */
    if (!detail::constructs(DMI_mmap(&address, page_bytes, pages, nullptr), "DMI_mmap")) return;
    static_cast<view<T> &>(*this) = view<T>(ptr<T>(address), size, reads, writes);
    page_ = page_elements;
  }
  DMI_CXX_HERE void unmap() noexcept {
    if (*this) DMI_munmap(this->data().address(), nullptr);
  }
  int64_t page_ = 0;
};

/* One object in a mapping of its own, zero at first: dmi::object<job> j; j->... is not there, but
 * j.data().load(). */
template <class T>
class object : public ptr<T> {
 public:
  DMI_CXX_HERE explicit object(const T &value = T()) : all_(1, elements(1)) {
    if (!all_) return;
    static_cast<ptr<T> &>(*this) = all_.data();
    detail::constructs(
        DMI_write(this->address(), detail::size_of<T>(), &value, DMI_EXCLUSIVE_WRITE, nullptr),
        "DMI_write");
  }

 private:
  array<T> all_;
};

DMI_CXX_END

#endif
