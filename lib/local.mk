# lib/local.mk - libdmi.  Add each new source and header to the list of its layer, one a line, in
# alphabetical order; nothing else has to change.  A file includes only its own layer and layers
# below, by path from lib/: #include "core/page.h".

# The rule for -version-info is in docs/packaging.md.  The map is for the linker of the shared
# library only; hidden visibility alone does not keep out what the compiler adds.
lib_LTLIBRARIES += libdmi.la
libdmi_la_LDFLAGS = -no-undefined -version-info 0:0:0 -pthread $(DMI_SANITIZER_FLAGS) \
	-Wl,--version-script=$(top_srcdir)/lib/libdmi.map
EXTRA_libdmi_la_DEPENDENCIES = $(top_srcdir)/lib/libdmi.map
libdmi_la_LIBADD = $(DMI_LIBS)

# 0 base: errors, log, locks, buffers and their account, what the machine has
base_sources = \
	lib/base/clock.h \
	lib/base/doing.c \
	lib/base/doing.h \
	lib/base/epoch.c \
	lib/base/epoch.h \
	lib/base/error.c \
	lib/base/error.h \
	lib/base/birth.c \
	lib/base/birth.h \
	lib/base/event.c \
	lib/base/event.h \
	lib/base/hot.c \
	lib/base/hot.h \
	lib/base/id.h \
	lib/base/event_table.h \
	lib/base/file.c \
	lib/base/file.h \
	lib/base/frame.c \
	lib/base/frame.h \
	lib/base/futex.c \
	lib/base/futex.h \
	lib/base/json.c \
	lib/base/json.h \
	lib/base/large.c \
	lib/base/large.h \
	lib/base/library.c \
	lib/base/library.h \
	lib/base/lock.c \
	lib/base/lock.h \
	lib/base/look.c \
	lib/base/look.h \
	lib/base/log.c \
	lib/base/log.h \
	lib/base/machine.c \
	lib/base/machine.h \
	lib/base/mutation.h \
	lib/base/outlet.c \
	lib/base/outlet.h \
	lib/base/pool.c \
	lib/base/pool.h \
	lib/base/safe.c \
	lib/base/safe.h \
	lib/base/version.c \
	lib/base/version.h \
	lib/base/trace.c \
	lib/base/trace.h \
	lib/base/trace_clock.c \
	lib/base/trace_clock.h \
	lib/base/trace_hold.c \
	lib/base/trace_hold.h \
	lib/base/trace_json.c \
	lib/base/trace_json.h \
	lib/base/trace_open.c \
	lib/base/trace_open.h \
	lib/base/trace_piece.c \
	lib/base/trace_piece.h \
	lib/base/where.c \
	lib/base/where.h \
	lib/base/xalloc.c \
	lib/base/xalloc.h

# 1 msg: what processes say to each other: messages, their one table, encoding
msg_sources = \
	lib/msg/addr.h \
	lib/msg/msg.h \
	lib/msg/pack.c \
	lib/msg/pack.h \
	lib/msg/packed.c \
	lib/msg/packed.h \
	lib/msg/table.h \
	lib/msg/types.h \
	lib/msg/wire.c \
	lib/msg/wire.h

# 2 mem: the spill file, sets of ranges
mem_sources = \
	lib/mem/range_set.c \
	lib/mem/range_set.h \
	lib/mem/spill.c \
	lib/mem/spill.h

# 3 net: connections, handshake, sealing, the daemon's loop
net_sources = \
	lib/net/accept.c \
	lib/net/addr.c \
	lib/net/alive.c \
	lib/net/beside.c \
	lib/net/caller.c \
	lib/net/common.c \
	lib/net/common.h \
	lib/net/conn.c \
	lib/net/connect_int.h \
	lib/net/dial.c \
	lib/net/handshake.c \
	lib/net/hello.c \
	lib/net/hello.h \
	lib/net/join.c \
	lib/net/lend.c \
	lib/net/net.c \
	lib/net/net_log.c \
	lib/net/net.h \
	lib/net/net_int.h \
	lib/net/outgoing.c \
	lib/net/peer.c \
	lib/net/peer_member.c \
	lib/net/proof.c \
	lib/net/proof.h \
	lib/net/receive.c \
	lib/net/ring.c \
	lib/net/ring.h \
	lib/net/seal.c \
	lib/net/seal.h \
	lib/net/send.c \
	lib/net/shm.c \
	lib/net/shm.h \
	lib/net/tcp.c \
	lib/net/transport.h

# 4 core: the pure protocol: pages, membership, memory, replacement policy
core_sources = \
	lib/core/coord.c \
	lib/core/coord_check.c \
	lib/core/coord_crash.c \
	lib/core/coord_leave.c \
	lib/core/coord_notice.c \
	lib/core/coord_pack.c \
	lib/core/coord_root.c \
	lib/core/coord_view.c \
	lib/core/copyset.c \
	lib/core/crash.c \
	lib/core/crash_lead.c \
	lib/core/crash_view.c \
	lib/core/directory.c \
	lib/core/directory_crash.c \
	lib/core/handover.c \
	lib/core/handover.h \
	lib/core/handover_heir.c \
	lib/core/handover_int.h \
	lib/core/heap.c \
	lib/core/heap.h \
	lib/core/heap_int.h \
	lib/core/heap_known.c \
	lib/core/heap_shape.c \
	lib/core/heap_step.c \
	lib/core/member.c \
	lib/core/member.h \
	lib/core/member_await.c \
	lib/core/member_call.c \
	lib/core/member_check.c \
	lib/core/member_crash.c \
	lib/core/member_int.h \
	lib/core/member_list.h \
	lib/core/coord_int.h \
	lib/core/member_join.c \
	lib/core/member_leave.c \
	lib/core/member_over.c \
	lib/core/member_main.c \
	lib/core/member_survive.c \
	lib/core/member_mapping.c \
	lib/core/member_note.c \
	lib/core/member_state.c \
	lib/core/member_stop.c \
	lib/core/member_view.c \
	lib/core/node.c \
	lib/core/node.h \
	lib/core/node_int.h \
	lib/core/node_crash.c \
	lib/core/node_pressure.c \
	lib/core/out.c \
	lib/core/out.h \
	lib/core/page.c \
	lib/core/page.h \
	lib/core/page_begin.c \
	lib/core/page_block.c \
	lib/core/page_check.c \
	lib/core/page_copy.c \
	lib/core/page_crash.c \
	lib/core/page_crash.h \
	lib/core/page_delegate.c \
	lib/core/page_early.c \
	lib/core/page_home.c \
	lib/core/page_int.h \
	lib/core/page_message.c \
	lib/core/page_owner.c \
	lib/core/page_request.c \
	lib/core/page_reserve.c \
	lib/core/page_wait.c \
	lib/core/page_write.c \
	lib/core/pressure.c \
	lib/core/pressure.h \
	lib/core/pressure_events.c \
	lib/core/pressure_int.h \
	lib/core/pressure_look.c \
	lib/core/pressure_others.c \
	lib/core/pressure_sweep.c \
	lib/core/pulse.c \
	lib/core/pulse.h \
	lib/core/promise.c \
	lib/core/promise.h \
	lib/core/pulse_int.h \
	lib/core/pulse_lease.c \
	lib/core/pulse_watch.c \
	lib/core/ranges.c \
	lib/core/ranges.h \
	lib/core/recover.c \
	lib/core/recover.h \
	lib/core/recover_home.c \
	lib/core/recover_int.h \
	lib/core/recover_list.c \
	lib/core/recover_resume.c \
	lib/core/recover_round.c \
	lib/core/reduce.c \
	lib/core/reduce.h \
	lib/core/replace.c \
	lib/core/replace.h \
	lib/core/rmw.c \
	lib/core/rmw.h \
	lib/core/capacity.c \
	lib/core/capacity.h \
	lib/core/cause.c \
	lib/core/cause.h \
	lib/core/root.c \
	lib/core/root.h \
	lib/core/syncop.c \
	lib/core/syncop.h \
	lib/core/syncop_int.h \
	lib/core/syncop_lock.c

# 5 access: a user thread's way to global memory: mappings, reads, writes, read-modify-writes, groups
access_sources = \
	lib/access/access.c \
	lib/access/access.h \
	lib/access/access_bytes.c \
	lib/access/access_carry.c \
	lib/access/access_hit.c \
	lib/access/access_int.h \
	lib/access/access_lend.c \
	lib/access/access_parts.c \
	lib/access/access_revive.c \
	lib/access/access_receive.c \
	lib/access/access_rmw.c \
	lib/access/access_trace.c \
	lib/access/faults.c \
	lib/access/faults.h \
	lib/access/group.c \
	lib/access/group.h \
	lib/access/group_init.c \
	lib/access/hold.c \
	lib/access/hold.h \
	lib/access/mapping.c \
	lib/access/mapping.h \
	lib/access/ops.c \
	lib/access/ops.h \
	lib/access/profile.c \
	lib/access/profile.h \
	lib/access/rwset.c \
	lib/access/rwset.h \
	lib/access/rwset_decompose.c \
	lib/access/rwset_int.h \
	lib/access/save.c \
	lib/access/save.h \
	lib/access/space.c \
	lib/access/space.h \
	lib/access/status.c \
	lib/access/status.h

# 6 sync: locks, conditions, barriers, the allocator: clients of access
sync_sources = \
	lib/sync/alloc.c \
	lib/sync/alloc.h \
	lib/sync/barrier.c \
	lib/sync/barrier.h \
	lib/sync/board.c \
	lib/sync/board.h \
	lib/sync/idpool.c \
	lib/sync/idpool.h \
	lib/sync/sync.c \
	lib/sync/sync.h

# 7 node: the process: daemon, threads, pager, joining and leaving
node_sources = \
	lib/node/above.c \
	lib/node/control.c \
	lib/node/control.h \
	lib/node/announce.c \
	lib/node/announce.h \
	lib/node/backtrace.c \
	lib/node/backtrace.h \
	lib/node/calls.c \
	lib/node/calls.h \
	lib/node/check.c \
	lib/node/check.h \
	lib/node/config.c \
	lib/node/config.h \
	lib/node/contact.c \
	lib/node/contact.h \
	lib/node/daemon.c \
	lib/node/daemon.h \
	lib/node/actions.c \
	lib/node/actions.h \
	lib/node/actions_view.c \
	lib/node/dying.c \
	lib/node/dying.h \
	lib/node/exits.c \
	lib/node/exits.h \
	lib/node/fatal.c \
	lib/node/fatal.h \
	lib/node/fatal_int.h \
	lib/node/fatal_say.c \
	lib/node/key.c \
	lib/node/key.h \
	lib/node/lease.c \
	lib/node/lease.h \
	lib/node/main.c \
	lib/node/option_table.h \
	lib/node/openxm.c \
	lib/node/openxm.h \
	lib/node/pager.c \
	lib/node/pager.h \
	lib/node/pager_int.h \
	lib/node/pager_sweep.c \
	lib/node/parent.c \
	lib/node/parent.h \
	lib/node/process.h \
	lib/node/program.h \
	lib/node/profiler.c \
	lib/node/profiler.h \
	lib/node/pulser.c \
	lib/node/pulser.h \
	lib/node/pulser_int.h \
	lib/node/pulser_news.c \
	lib/node/pulser_survive.c \
	lib/node/records.c \
	lib/node/records.h \
	lib/node/report.c \
	lib/node/report_int.h \
	lib/node/report_why.c \
	lib/node/report.h \
	lib/node/runtime.c \
	lib/node/runtime.h \
	lib/node/see.c \
	lib/node/see.h \
	lib/node/see_count.c \
	lib/node/see_int.h \
	lib/node/see_look.c \
	lib/node/see_member.c \
	lib/node/see_page.c \
	lib/node/see_tell.c \
	lib/node/see_thread.c \
	lib/node/self.c \
	lib/node/self.h \
	lib/node/stall.c \
	lib/node/stall.h \
	lib/node/stays.c \
	lib/node/stays.h \
	lib/node/thread.c lib/node/thread_int.h lib/node/thread_start.c \
	lib/node/thread_wake.c lib/node/thread_call.c lib/node/thread_letter.c \
	lib/node/thread.h \
	lib/node/tracer.c \
	lib/node/tracer.h \
	lib/node/tracer_file.c \
	lib/node/tracer_int.h \
	lib/node/tracer_take.c \
	lib/node/viewer.c \
	lib/node/viewer.h

# 8 elastic: programs that use the processes that there are: farms of tasks, teams
elastic_sources = \
	lib/elastic/elastic.c \
	lib/elastic/elastic.h \
	lib/elastic/farm.h \
	lib/elastic/farm_int.h \
	lib/elastic/farm_member.c \
	lib/elastic/farm_plan.c \
	lib/elastic/farm_plan.h \
	lib/elastic/farm_result.c \
	lib/elastic/farm_run.c \
	lib/elastic/farm_table.c \
	lib/elastic/farm_team.c \
	lib/elastic/farm_thread.c \
	lib/elastic/nodes.c \
	lib/elastic/nodes.h \
	lib/elastic/scale.c \
	lib/elastic/scale.h \
	lib/elastic/scale_int.h \
	lib/elastic/scale_notice.c \
	lib/elastic/scale_phase.c \
	lib/elastic/scale_thread.c

# 9 team: ranks that send messages to each other
team_pure = \
	lib/team/combine.c \
	lib/team/combine.h \
	lib/team/port.c \
	lib/team/port.h \
	lib/team/port_int.h \
	lib/team/port_message.c \
	lib/team/port_op.c \
	lib/team/table.c \
	lib/team/table.h \
	lib/team/tree.c \
	lib/team/tree.h

# 9 team, the runtime: ranks of this process
team_runtime_sources = \
	lib/team/ask.c \
	lib/team/channel.c \
	lib/team/collect.c \
	lib/team/join.c \
	lib/team/message.c \
	lib/team/reduce.c \
	lib/team/runtime.c \
	lib/team/team.h \
	lib/team/team_int.h

# 9 remote: functions that are called by a client and run where their data are
remote_sources = $(remote_pure)
remote_pure = \
	lib/remote/book.c \
	lib/remote/book.h \
	lib/remote/book_again.c \
	lib/remote/book_call.c \
	lib/remote/book_int.h \
	lib/remote/book_place.c \
	lib/remote/book_server.c \
	lib/remote/book_time.c \
	lib/remote/book_value.c \
	lib/remote/place.c \
	lib/remote/place.h \
	lib/remote/pool.c \
	lib/remote/pool.h \
	lib/remote/pool_call.c \
	lib/remote/pool_int.h \
	lib/remote/pool_memory.c \
	lib/remote/pool_ready.c \
	lib/remote/pool_return.c \
	lib/remote/pool_value.c \
	lib/remote/table.c \
	lib/remote/bytes.h \
	lib/remote/table.h \
	lib/remote/types.h \
	lib/remote/why.c

# 9 remote, the runtime: its threads, messages, arenas; clients and calls
remote_runtime_sources = \
	lib/remote/arena.c \
	lib/remote/arena.h \
	lib/remote/call.c \
	lib/remote/call.h \
	lib/remote/carry.c \
	lib/remote/client.c \
	lib/remote/crash.c \
	lib/remote/data.c \
	lib/remote/fetch.c \
	lib/remote/function.c \
	lib/remote/issue.c \
	lib/remote/line.c \
	lib/remote/message.c \
	lib/remote/notice.c \
	lib/remote/remote.h \
	lib/remote/remote_int.h \
	lib/remote/runtime.c \
	lib/remote/serve.c \
	lib/remote/store.c \
	lib/remote/worker.c

# 10 api: entry points
api_sources = \
	lib/api/farm.c \
	lib/api/ext.c \
	lib/api/local.c \
	lib/api/local.h \
	lib/api/memory.c \
	lib/api/program.c \
	lib/api/remote.c \
	lib/api/rescale.c \
	lib/api/scattered.c \
	lib/api/start.h \
	lib/api/sync.c \
	lib/api/team.c \
	lib/api/reported.h

libdmi_la_SOURCES = \
	include/dmi_api.h \
	include/dmi_ext.h \
	include/dmi_farm.h \
	include/dmi_remote.h \
	include/dmi_team.h \
	$(base_sources) \
	$(msg_sources) \
	$(mem_sources) \
	$(net_sources) \
	$(core_sources) \
	$(access_sources) \
	$(sync_sources) \
	$(node_sources) \
	$(elastic_sources) \
	$(remote_sources) \
	$(team_pure) \
	$(team_runtime_sources) \
	$(remote_runtime_sources) \
	$(api_sources)

# libdmiox, a server for OpenXM clients: a library of its own, so that programs without one need
# neither it nor GMP.  It uses nothing of libdmi.  Static only: few programs have it, and so there
# is no soname to keep.  ox, pure: codec, stack machine, groups
lib_LTLIBRARIES += libdmiox.la
libdmiox_la_LDFLAGS = -static -pthread $(DMI_SANITIZER_FLAGS)
libdmiox_la_LIBADD = $(OX_LIBS)
libdmiox_la_SOURCES = \
	include/dmi_ox.h \
	lib/ox/caller.c \
	lib/ox/command.c \
	lib/ox/compile.c \
	lib/ox/control.c \
	lib/ox/decode.c \
	lib/ox/decode.h \
	lib/ox/desk.c \
	lib/ox/desk.h \
	lib/ox/encode.c \
	lib/ox/encode.h \
	lib/ox/function.c \
	lib/ox/function.h \
	lib/ox/group.c \
	lib/ox/host.c \
	lib/ox/host.h \
	lib/ox/host_int.h \
	lib/ox/host_link.c \
	lib/ox/link.c \
	lib/ox/lookup.c \
	lib/ox/lookup.h \
	lib/ox/memory.c \
	lib/ox/memory.h \
	lib/ox/number.c \
	lib/ox/number.h \
	lib/ox/run.c \
	lib/ox/server.c \
	lib/ox/server_int.h \
	lib/ox/session.c \
	lib/ox/session.h \
	lib/ox/session_int.h \
	lib/ox/socket.c \
	lib/ox/socket.h \
	lib/ox/stack.c \
	lib/ox/text.c \
	lib/ox/text.h \
	lib/ox/value.c \
	lib/ox/value.h \
	lib/ox/wire.c \
	lib/ox/wire.h

# The start object holds main().  It is linked into every program as an object, not from the
# library, so that main() is there whatever else the program needs; dmicc adds it.  An archive is
# only the way to have automake compile it with dependencies.
noinst_LIBRARIES += lib/api/libstart.a
lib_api_libstart_a_SOURCES = lib/api/start.c lib/api/start.h
start_DATA += dmi_start.o
CLEANFILES += dmi_start.o

# For builds that ask pkg-config instead of using dmicc.
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = dmi.pc dmiox.pc

dmi_start.o: lib/api/libstart.a
	$(AM_V_GEN)cp lib/api/start.$(OBJEXT) $@
