# test/unit/local.mk - cmocka tests of single modules.
#
# For test/unit/NAME_test.c add, in the `if HAVE_CMOCKA` part:
#   check_PROGRAMS += test/unit/NAME_test
#   test_unit_NAME_test_SOURCES = test/unit/NAME_test.c
#   test_unit_NAME_test_LDADD = $(unit_libs)
# The program is run without arguments; exit status 77 means skipped.

unit_libs = libdmi.la $(DMI_LIBS) -lcmocka
memory_net = test/lib/memory_net.c test/lib/memory_net.h test/lib/memory_net_int.h test/lib/memory_pair.c

if HAVE_CMOCKA
check_PROGRAMS += test/unit/version_test
test_unit_version_test_SOURCES = test/unit/version_test.c
test_unit_version_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/trace_test
test_unit_trace_test_SOURCES = test/unit/trace_test.c
test_unit_trace_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/team_test
test_unit_team_test_SOURCES = test/unit/team_test.c
test_unit_team_test_LDADD = $(unit_libs)
check_PROGRAMS += test/unit/team_port_test
test_unit_team_port_test_SOURCES = test/unit/team_port_test.c
test_unit_team_port_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/remote_place_test
test_unit_remote_place_test_SOURCES = test/unit/remote_place_test.c
test_unit_remote_place_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/remote_pool_test
test_unit_remote_pool_test_SOURCES = test/unit/remote_pool_test.c
test_unit_remote_pool_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/remote_book_test
test_unit_remote_book_test_SOURCES = test/unit/remote_book_test.c
test_unit_remote_book_test_LDADD = $(unit_libs)

ox_libs = libdmiox.la $(OX_LIBS)
check_PROGRAMS += test/unit/ox_codec_test
test_unit_ox_codec_test_SOURCES = test/unit/ox_codec_test.c
test_unit_ox_codec_test_LDADD = $(ox_libs) -lcmocka

check_PROGRAMS += test/unit/ox_session_test
test_unit_ox_session_test_SOURCES = test/unit/ox_session_test.c test/unit/ox_world.h
test_unit_ox_session_test_LDADD = $(ox_libs) -lcmocka

check_PROGRAMS += test/unit/ox_group_test
test_unit_ox_group_test_SOURCES = test/unit/ox_group_test.c test/unit/ox_world.h
test_unit_ox_group_test_LDADD = $(ox_libs) -lcmocka

check_PROGRAMS += test/unit/where_test
test_unit_where_test_SOURCES = test/unit/where_test.c test/unit/dmi/where_own.hpp
test_unit_where_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/trace_hold_test
test_unit_trace_hold_test_SOURCES = test/unit/trace_hold_test.c
test_unit_trace_hold_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/faults_test
test_unit_faults_test_SOURCES = test/unit/faults_test.c
test_unit_faults_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/farm_plan_test
test_unit_farm_plan_test_SOURCES = test/unit/farm_plan_test.c
test_unit_farm_plan_test_LDADD = farm/libfarm.a -lcmocka

check_PROGRAMS += test/unit/farm_table_test
test_unit_farm_table_test_SOURCES = test/unit/farm_table_test.c
test_unit_farm_table_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/farm_job_test
test_unit_farm_job_test_SOURCES = test/unit/farm_job_test.c
test_unit_farm_job_test_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
test_unit_farm_job_test_LDADD = farm/libfarm.a -lcmocka

check_PROGRAMS += test/unit/farm_share_test
test_unit_farm_share_test_SOURCES = test/unit/farm_share_test.c
test_unit_farm_share_test_LDADD = farm/libfarm.a -lcmocka

check_PROGRAMS += test/unit/farm_runner_test
test_unit_farm_runner_test_SOURCES = test/unit/farm_runner_test.c
test_unit_farm_runner_test_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
test_unit_farm_runner_test_LDADD = farm/libfarm.a -lcmocka

check_PROGRAMS += test/unit/birth_test
test_unit_birth_test_SOURCES = test/unit/birth_test.c
test_unit_birth_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/event_test
test_unit_event_test_SOURCES = test/unit/event_test.c
test_unit_event_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/control_test
test_unit_control_test_SOURCES = test/unit/control_test.c
test_unit_control_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/member_survive_test
test_unit_member_survive_test_SOURCES = test/unit/member_survive_test.c test/unit/member_one.h test/unit/agree.h test/unit/member_pair.h
test_unit_member_survive_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/member_stop_test
test_unit_member_stop_test_SOURCES = test/unit/member_stop_test.c test/unit/member_one.h test/unit/agree.h test/unit/member_pair.h
test_unit_member_stop_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/block_test
test_unit_block_test_SOURCES = test/unit/block_test.c
test_unit_block_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/member_note_test
test_unit_member_note_test_SOURCES = test/unit/member_note_test.c test/unit/member_one.h test/unit/agree.h test/unit/member_pair.h
test_unit_member_note_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/pulse_test
test_unit_pulse_test_SOURCES = test/unit/pulse_test.c
test_unit_pulse_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/crash_test
test_unit_crash_test_SOURCES = test/unit/crash_test.c
test_unit_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/look_test
test_unit_look_test_SOURCES = test/unit/look_test.c
test_unit_look_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/lock_test
test_unit_lock_test_SOURCES = test/unit/lock_test.c
test_unit_lock_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/machine_test
test_unit_machine_test_SOURCES = test/unit/machine_test.c
test_unit_machine_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/xalloc_test
test_unit_xalloc_test_SOURCES = test/unit/xalloc_test.c
test_unit_xalloc_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/large_test
test_unit_large_test_SOURCES = test/unit/large_test.c
test_unit_large_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_test
test_unit_net_test_SOURCES = test/unit/net_test.c test/unit/net_node.h $(memory_net)
test_unit_net_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_memory_test
test_unit_net_memory_test_SOURCES = test/unit/net_memory_test.c test/unit/net_node.h $(memory_net)
test_unit_net_memory_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_settle_test
test_unit_net_settle_test_SOURCES = test/unit/net_settle_test.c test/unit/net_node.h $(memory_net)
test_unit_net_settle_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_pack_test
test_unit_net_pack_test_SOURCES = test/unit/net_pack_test.c test/unit/net_node.h $(memory_net)
test_unit_net_pack_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_traffic_test
test_unit_net_traffic_test_SOURCES = test/unit/net_traffic_test.c test/unit/net_node.h $(memory_net)
test_unit_net_traffic_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_beside_test
test_unit_net_beside_test_SOURCES = test/unit/net_beside_test.c test/unit/net_node.h $(memory_net)
test_unit_net_beside_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_accept_test
test_unit_net_accept_test_SOURCES = test/unit/net_accept_test.c test/unit/net_node.h \
	test/unit/net_raw.h
test_unit_net_accept_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_connect_test
test_unit_net_connect_test_SOURCES = test/unit/net_connect_test.c test/unit/net_pair.h \
	test/unit/net_node.h test/unit/net_raw.h
test_unit_net_connect_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_hello_test
test_unit_net_hello_test_SOURCES = test/unit/net_hello_test.c test/unit/net_pair.h \
	test/unit/net_node.h test/unit/net_raw.h
test_unit_net_hello_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_key_test
test_unit_net_key_test_SOURCES = test/unit/net_key_test.c test/unit/net_pair.h \
	test/unit/net_node.h test/unit/net_raw.h
test_unit_net_key_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_alive_test
test_unit_net_alive_test_SOURCES = test/unit/net_alive_test.c test/unit/net_node.h \
	test/unit/net_raw.h
test_unit_net_alive_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/proof_test
test_unit_proof_test_SOURCES = test/unit/proof_test.c
test_unit_proof_test_LDADD = $(unit_libs) -lm

check_PROGRAMS += test/unit/seal_test
test_unit_seal_test_SOURCES = test/unit/seal_test.c test/unit/ocb_reference.h
test_unit_seal_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/late_own_test
test_unit_late_own_test_SOURCES = test/unit/late_own_test.c
test_unit_late_own_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/at_once_test
test_unit_at_once_test_SOURCES = test/unit/at_once_test.c
test_unit_at_once_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/page_crash_test
test_unit_page_crash_test_SOURCES = test/unit/page_crash_test.c
test_unit_page_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/recover_test
test_unit_recover_test_SOURCES = test/unit/recover_test.c
test_unit_recover_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/wait_test
test_unit_wait_test_SOURCES = test/unit/wait_test.c test/unit/page_line.h
test_unit_wait_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/reserve_test
test_unit_reserve_test_SOURCES = test/unit/reserve_test.c test/unit/reserve_world.h \
	test/unit/page_line.h
test_unit_reserve_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/offer_test
test_unit_offer_test_SOURCES = test/unit/offer_test.c test/unit/reserve_world.h \
	test/unit/page_line.h
test_unit_offer_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/delegate_test
test_unit_delegate_test_SOURCES = test/unit/delegate_test.c test/unit/page_line.h
test_unit_delegate_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/lease_test
test_unit_lease_test_SOURCES = test/unit/lease_test.c
test_unit_lease_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/early_test
test_unit_early_test_SOURCES = test/unit/early_test.c
test_unit_early_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/answer_test
test_unit_answer_test_SOURCES = test/unit/answer_test.c test/unit/net_node.h $(memory_net)
test_unit_answer_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/ring_test
test_unit_ring_test_SOURCES = test/unit/ring_test.c
test_unit_ring_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/board_test
test_unit_board_test_SOURCES = test/unit/board_test.c
test_unit_board_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/shm_test
test_unit_shm_test_SOURCES = test/unit/shm_test.c
test_unit_shm_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_lend_test
test_unit_net_lend_test_SOURCES = test/unit/net_lend_test.c test/unit/net_node.h $(memory_net)
test_unit_net_lend_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/net_large_test
test_unit_net_large_test_SOURCES = test/unit/net_large_test.c test/unit/net_node.h $(memory_net)
test_unit_net_large_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/wire_test
test_unit_wire_test_SOURCES = test/unit/wire_test.c
test_unit_wire_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/member_test
test_unit_member_test_SOURCES = test/unit/member_test.c test/unit/member_one.h test/unit/agree.h
test_unit_member_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/member_crash_test
test_unit_member_crash_test_SOURCES = test/unit/member_crash_test.c test/unit/member_crash.h test/unit/member_one.h test/unit/agree.h
test_unit_member_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/directory_crash_test
test_unit_directory_crash_test_SOURCES = test/unit/directory_crash_test.c test/unit/member_crash.h test/unit/member_one.h test/unit/agree.h
test_unit_directory_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/mapping_crash_test
test_unit_mapping_crash_test_SOURCES = test/unit/mapping_crash_test.c test/unit/member_crash.h test/unit/member_one.h test/unit/agree.h
test_unit_mapping_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/leave_crash_test
test_unit_leave_crash_test_SOURCES = test/unit/leave_crash_test.c test/unit/member_crash.h test/unit/member_one.h test/unit/agree.h
test_unit_leave_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/notice_crash_test
test_unit_notice_crash_test_SOURCES = test/unit/notice_crash_test.c test/unit/member_crash.h test/unit/member_one.h test/unit/agree.h
test_unit_notice_crash_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/claim_test
test_unit_claim_test_SOURCES = test/unit/claim_test.c
test_unit_claim_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/ranges_test
test_unit_ranges_test_SOURCES = test/unit/ranges_test.c
test_unit_ranges_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/member_pack_test
test_unit_member_pack_test_SOURCES = test/unit/member_pack_test.c
test_unit_member_pack_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/heap_test
test_unit_heap_test_SOURCES = test/unit/heap_test.c
test_unit_heap_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/range_set_test
test_unit_range_set_test_SOURCES = test/unit/range_set_test.c
test_unit_range_set_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/pool_test
test_unit_pool_test_SOURCES = test/unit/pool_test.c
test_unit_pool_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/capacity_test
test_unit_capacity_test_SOURCES = test/unit/capacity_test.c
test_unit_capacity_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/promise_test
test_unit_promise_test_SOURCES = test/unit/promise_test.c
test_unit_promise_test_LDADD = $(unit_libs)

check_PROGRAMS += test/unit/handover_test
test_unit_handover_test_SOURCES = test/unit/handover_test.c
test_unit_handover_test_CPPFLAGS = $(sim_cppflags)
test_unit_handover_test_LDADD = $(sim_libs) -lcmocka

check_PROGRAMS += test/unit/node_test
test_unit_node_test_SOURCES = test/unit/node_test.c test/unit/node_world.h test/unit/agree.h
test_unit_node_test_CPPFLAGS = $(sim_cppflags)
test_unit_node_test_LDADD = $(sim_libs) -lcmocka

check_PROGRAMS += test/unit/capacity_sim_test
test_unit_capacity_sim_test_SOURCES = test/unit/capacity_sim_test.c
test_unit_capacity_sim_test_CPPFLAGS = $(sim_cppflags)
test_unit_capacity_sim_test_LDADD = $(sim_libs) -lcmocka

check_PROGRAMS += test/unit/replace_test
test_unit_replace_test_SOURCES = test/unit/replace_test.c
test_unit_replace_test_LDADD = $(unit_libs) -lm

check_PROGRAMS += test/unit/pressure_test
test_unit_pressure_test_SOURCES = test/unit/pressure_test.c
test_unit_pressure_test_CPPFLAGS = $(sim_cppflags)
test_unit_pressure_test_LDADD = $(sim_libs) -lcmocka
endif
