/*
 * see_member.c - what can be seen of this process that only its daemon may read: the members, the
 * process itself, its traffic.  One line of JSON each (docs/seeing.md).
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "net/shm.h"
#include "node/pager.h"
#include "node/runtime.h"
#include "node/see_int.h"
#include "node/thread.h"

/* ,"address":"10.0.0.1","port":7880: where this process reaches it. */
static void put_address(struct dmi_json *to, const struct dmi_addr *addr) {
  static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
  char text[INET6_ADDRSTRLEN];
  bool is_ipv4 = memcmp(addr->ip, ipv4, sizeof(ipv4)) == 0;
  if (!addr->port ||
      !inet_ntop(is_ipv4 ? AF_INET : AF_INET6, addr->ip + (is_ipv4 ? 12 : 0), text, sizeof(text)))
    return;
  dmi_json_put(to, ",\"address\":\"%s\",\"port\":%u", text, addr->port);
}

/* Only a process itself knows that it is to leave, or was not welcomed yet. */
static const char *state_of(const struct dmi_process *process, const struct dmi_peer *peer) {
  if (peer->witness) return "witness";
  if (peer->left) return "left";
  if (peer->uid != process->access.core.self) return "member";
  if (process->signals > 0) return "leaving";
  return dmi_member_is_welcome(process->member) ? "member" : "joined";
}

static void put_member(const struct dmi_process *process, const struct dmi_peer *peer,
                       struct dmi_json *to) {
  dmi_json_put(to, "{\"member\":%" PRIu32 ",\"process\":%" PRId32 ",\"state\":\"%s\",\"host\":",
               peer->uid, (int32_t)peer->dmi_id.n, state_of(process, peer));
  dmi_json_text(to, peer->info.host);
  if (*peer->info.tag) {
    dmi_json_put(to, ",\"tag\":");
    dmi_json_text(to, peer->info.tag);
  }
  if (peer->info.birth.pid) dmi_json_put(to, ",\"pid\":%" PRIu32, peer->info.birth.pid);
  dmi_json_put(to, ",\"cores\":%" PRIu32 ",\"memory\":%" PRIu64, peer->info.cores,
               peer->info.memory);
  if (peer->uid == dmi_member_coordinator(process->member))
    dmi_json_put(to, ",\"coordinator\":true");
  if (peer->uid != process->access.core.self)
    put_address(to, &peer->addr);
  else
    dmi_json_put(to, ",\"port\":%u,\"asked\":true", dmi_net_port(process->access.net));
  dmi_json_put(to, "}");
}

static void put_traffic(const struct dmi_process *process, const struct dmi_peer *peer,
                        struct dmi_json *to) {
  struct dmi_net_traffic traffic = dmi_net_traffic_with(process->access.net, peer->uid);
  dmi_json_put(to,
               "{\"member\":%" PRIu32 ",\"process\":%" PRId32 ",\"bytes_in\":%" PRIu64
               ",\"bytes_out\":%" PRIu64,
               peer->uid, (int32_t)peer->dmi_id.n, traffic.received, traffic.sent);
  const char *over = dmi_net_over(process->access.net, peer->uid);
  if (over) dmi_json_put(to, ",\"over\":\"%s\"", over);
  dmi_json_put(to, "}");
}

/* How many members it is connected with, and with how many of them by shared memory. */
static void put_connections(const struct dmi_process *process, struct dmi_json *to) {
  uint32_t num, all = 0, shared = 0;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  for (uint32_t i = 0; i < num; i++) {
    const char *over = dmi_net_over(process->access.net, peers[i].uid);
    if (over) all++;
    if (over && strcmp(over, DMI_SHM_NAME) == 0) shared++;
  }
  dmi_json_put(to, ",\"connections\":%" PRIu32 ",\"shared\":%" PRIu32, all, shared);
}

/* A line for each member. */
static uint64_t each(struct dmi_process *process, uint64_t at, struct dmi_json *to,
                     void (*put)(const struct dmi_process *process, const struct dmi_peer *peer,
                                 struct dmi_json *to)) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  for (uint32_t i = (uint32_t)at; i < num; i++) {
    size_t before = to->at;
    put(process, &peers[i], to);
    if (!dmi_see_line(to, before)) return i;
  }
  return 0;
}

static void put_process(struct dmi_process *process, time_t began, struct dmi_json *to) {
  const struct dmi_access *access = &process->access;
  const struct dmi_peer *own = dmi_member_peer(process->member, access->core.self);
  struct dmi_net_traffic traffic = dmi_net_traffic(access->net);
  struct dmi_pager_counts pool;
  struct dmi_faults_seen faults;
  dmi_pager_counts(process->pager, &pool);
  dmi_faults_look(&process->access.faults, &faults);
  dmi_json_put(to,
               "{\"member\":%" PRIu32 ",\"process\":%" PRId32
               ",\"pid\":%ld,\"state\":\"%s\",\"now\":%lld,\"since\":%lld",
               access->core.self, (int32_t)process->dmi_id.n, (long)getpid(),
               own ? state_of(process, own) : "joining", (long long)time(NULL), (long long)began);
  if (!process->config.witness) {
    dmi_json_put(to, ",\"program\":");
    dmi_json_text(to, process->command);
  }
  if (process->signals > 0) {
    dmi_json_put(to, ",\"stays\":");
    dmi_json_text(to, dmi_member_waits_for(process->member));
  }
  dmi_json_put(to, ",\"cores\":%" PRIu32 ",\"machine_cores\":%" PRIu32 ",\"threads\":%" PRIu32,
               process->machine.cores, process->machine.present,
               dmi_threads_running(process->threads) + dmi_threads_main_runs(process->threads));
  dmi_json_put(to,
               ",\"pool\":{\"limit\":%" PRIu64 ",\"used\":%" PRIu64 ",\"peak\":%" PRIu64
               ",\"copies\":%" PRIu64 ",\"spilled\":%" PRIu64 ",\"tables\":%" PRIu64 "}",
               pool.limit, pool.used, pool.peak, pool.copies, pool.spilled,
               dmi_access_tables(access));
  dmi_json_put(to,
               ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64 ",\"faults\":%" PRIu64
               ",\"faults_now\":%.1f",
               traffic.received, traffic.sent, faults.num, faults.now);
  put_connections(process, to);
  dmi_json_put(to, ",\"losses\":%" PRIu32 "}\n", process->losses);
}

bool dmi_see_by_daemon(uint32_t what) {
  return what == DMI_SEE_MEMBERS || what == DMI_SEE_PROCESS || what == DMI_SEE_PEERS;
}

uint64_t dmi_see_member(struct dmi_process *process, const struct dmi_msg_see *ask, time_t began,
                        struct dmi_json *to) {
  if (ask->what == DMI_SEE_MEMBERS) return each(process, ask->at, to, put_member);
  if (ask->what == DMI_SEE_PEERS) return each(process, ask->at, to, put_traffic);
  put_process(process, began, to);
  return 0;
}
