/*
 * dmi/process.hpp - processes that come and go, and threads in them.  Included by dmi.hpp.
 */
#ifndef DMI_PROCESS_HPP
#define DMI_PROCESS_HPP

#include <vector>

#include "dmi/memory.hpp"

DMI_CXX_BEGIN

DMI_CXX_HERE outcome<int32_t> rank() {
  int32_t id = 0;
  if (!DMI_rank(&id)) return detail::fail<int32_t>("DMI_rank", DMI_errno());
  return id;
}
/* The next notice: waits for it. */
DMI_CXX_HERE outcome<DMI_node_t> poll() {
  DMI_node_t node;
  if (!DMI_poll(&node)) return detail::fail<DMI_node_t>("DMI_poll", DMI_errno());
  return node;
}
/* The next notice, if there is one. */
DMI_CXX_HERE outcome<std::optional<DMI_node_t>> peek() {
  using found_t = std::optional<DMI_node_t>;
  DMI_node_t node;
  int32_t found = DMI_FALSE;
  if (!DMI_peek(&node, &found)) return detail::fail<found_t>("DMI_peek", DMI_errno());
  return found ? found_t(node) : found_t();
}
DMI_CXX_HERE outcome<void> welcome(int32_t dmi_id) {
  return detail::check(DMI_welcome(dmi_id), "DMI_welcome");
}
DMI_CXX_HERE outcome<void> goodbye(int32_t dmi_id) {
  return detail::check(DMI_goodbye(dmi_id), "DMI_goodbye");
}
/* The members at this time. */
DMI_CXX_HERE outcome<std::vector<DMI_node_t>> nodes() {
  using nodes_t = std::vector<DMI_node_t>;
  nodes_t all(16);
  int32_t num = 0;
  for (;;) {
    if (!DMI_nodes(all.data(), &num, static_cast<int32_t>(all.size())))
      return detail::fail<nodes_t>("DMI_nodes", DMI_errno());
    if (num < static_cast<int32_t>(all.size())) break;
    all.resize(2 * all.size());
  }
  all.resize(static_cast<std::size_t>(num));
  return all;
}

/* What DMI_join gives for a thread that an exception has ended (dmi/guard.hpp). */
inline constexpr int64_t uncaught = INT64_MIN;

/* A thread that runs DMI_thread: a name of it, which may be copied, and stored in global memory.
 * It must be joined or detached once. */
class thread {
 public:
  thread() = default;
  DMI_CXX_HERE static outcome<thread> create(int32_t dmi_id, int64_t argument) {
    thread made;
    if (!DMI_create(&made.thread_, dmi_id, argument, nullptr))
      return detail::fail<thread>("DMI_create", DMI_errno());
    return made;
  }
  template <class T>
  DMI_CXX_HERE static outcome<thread> create(int32_t dmi_id, ptr<T> argument) {
    return create(dmi_id, argument.address());
  }
  /* Waits for its end, and gives what DMI_thread has returned; dmi::uncaught if that was left by an
   * exception. */
  DMI_CXX_HERE outcome<int64_t> join() const {
    int64_t value = 0;
    if (!DMI_join(thread_, &value, nullptr)) return detail::fail<int64_t>("DMI_join", DMI_errno());
    return value;
  }
  DMI_CXX_HERE outcome<void> detach() const {
    return detail::check(DMI_detach(thread_, nullptr), "DMI_detach");
  }
  DMI_thread_t handle() const noexcept {
    return thread_;
  } /* for calls of C */

 private:
  DMI_thread_t thread_{};
};

DMI_CXX_END

#endif
