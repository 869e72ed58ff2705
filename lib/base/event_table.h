/*
 * event_table.h - THE TABLE of all events of a process. The enum, the structs, the lines of the log
 * and the JSON for launchers are made from it; a test compares it with the table of docs/events.md.
 *
 * A new event needs a row here, one in docs/events.md, and a dmi_emit(stream, NAME, ...) where it
 * happens. Frequent events (for each page or lock) have the level DEBUG, so only users who ask for
 * them get them.
 */
#ifndef DMI_BASE_EVENT_TABLE_H
#define DMI_BASE_EVENT_TABLE_H

/* Name; level; how the user sees it; subsystem; text of the log, with {fields}; what it means;
 * fields. How the user sees it: NOT, LOG (a line of the log), SAY (always, as "dmi: text" if not
 * in the log), LINE (a line of the log, if it has a text, and always "=== name ===" on stderr).
 * Fields: NUMBER(name, unit, meaning), ADDRESS (global memory), TIME (seconds since 1970), TEXT. */
/* clang-format off */
#define DMI_EVENT_TABLE(EVENT, NUMBER, ADDRESS, TIME, TEXT) \
  EVENT(error, ERROR, SAY, "", "{text}", "Something failed, and this process, or a call of it, cannot go on.", \
    TEXT(subsystem, "", "part of DMI that says so") \
    TEXT(text, "", "a sentence for people") \
    NUMBER(all, "", "1: the program ends in all processes, and each of them says so")) \
  EVENT(warning, WARN, SAY, "", "{text}", "Somebody should look at this.", \
    TEXT(subsystem, "", "part of DMI that says so") \
    TEXT(text, "", "a sentence for people")) \
  EVENT(lost, WARN, NOT, "start", "", "The reader was slow: so many events before this one were left out.", \
    NUMBER(count, "events", "left out")) \
  EVENT(listening, INFO, LOG, "start", "{name} listens on port {port}; {cores} cores, {memory} bytes", \
    "This process listens: others can join the program through it.", \
    TEXT(name, "", "of the program") \
    TEXT(host, "", "name of this machine for others") \
    NUMBER(port, "", "where it listens") \
    NUMBER(cores, "", "processors it may use") \
    NUMBER(memory, "bytes", "lent to the program")) \
  EVENT(serves, INFO, SAY, "start", "OpenXM clients are served: control {address} data {data}", \
    "This process listens for OpenXM clients (dmirun --ox).", \
    TEXT(address, "", "where control connections come: ADDR:PORT") \
    TEXT(data, "", "where data connections come")) \
  EVENT(initialized, INFO, LINE, "start", "", "The process is about to begin or to join a program.",) \
  EVENT(joined, INFO, LINE, "member", "joined as member {member}", "It is a member and has asked to be admitted.", \
    NUMBER(member, "", "its number, never used again") \
    NUMBER(id, "", "its dmi_id") \
    TEXT(program, "", "id of the program, 32 hexadecimal digits")) \
  EVENT(witness, INFO, SAY, "member", \
    "this is a witness for {program} (process {id} on {host}): it votes on who goes on when a process is lost, and runs no threads", \
    "It has joined as a witness (dmirun --witness).", \
    TEXT(program, "", "its name, as on its command line") \
    NUMBER(id, "", "dmi_id of the process of DMI_main, or of the coordinator") \
    TEXT(host, "", "machine of that process")) \
  EVENT(opened, INFO, LINE, "member", "welcomed", "The program has admitted it (DMI_welcome).",) \
  EVENT(closed, INFO, LINE, "member", "asked to leave", "It has asked to leave.",) \
  EVENT(stays, WARN, NOT, "member", "", "It was asked to leave some seconds ago, and is still there: said once.", \
    TEXT(why, "", "what it waits for, a sentence for people")) \
  EVENT(dismissed, INFO, LOG, "member", "dismissed; pages go to member {heir} (0: nobody)", \
    "It was dismissed (DMI_goodbye), and its pages go.", \
    NUMBER(heir, "", "member that takes over; 0: nobody is there who could")) \
  EVENT(keeps_pages, WARN, SAY, "member", \
    "no other process can take the pages of this one now ({pages}): it keeps them, and losing it ends the program", \
    "It leaves, but keeps pages until another process can take them: it must not be lost.", \
    NUMBER(pages, "", "of which it is the owner")) \
  EVENT(left, INFO, LINE, "member", "left: all pages are elsewhere", "It has left: it may be lost without harm.",) \
  EVENT(stopping, INFO, LOG, "member", "member {member} has called DMI_exit: the program ends with status {status}", \
    "The program is ending in order: DMI_exit was called.", \
    NUMBER(member, "", "whose call it was") \
    NUMBER(status, "", "that each process ends with")) \
  EVENT(finalized, INFO, LINE, "start", "", "The process ends, with nothing wrong.",) \
  EVENT(view, INFO, LOG, "member", "view {view}: {members} members, coordinator {coordinator}", \
    "This process has taken a new view of who the members are.", \
    NUMBER(view, "", "its number") \
    NUMBER(members, "", "how many there are") \
    NUMBER(coordinator, "", "member that orders joins and leaves")) \
  EVENT(member_joined, INFO, LOG, "member", \
    "member {member} is there: dmi_id {id} on {host}, {cores} cores, {memory} bytes", \
    "The view has this new member.", \
    NUMBER(member, "", "its number") \
    NUMBER(id, "", "its dmi_id") \
    TEXT(host, "", "its machine") \
    NUMBER(cores, "", "processors it may use") \
    NUMBER(memory, "bytes", "lent to the program")) \
  EVENT(member_left, INFO, LOG, "member", "member {member} has left; its homes go to member {heir}", \
    "The view is without this member, which has left.", \
    NUMBER(member, "", "its number") \
    NUMBER(heir, "", "member that took over")) \
  EVENT(member_gone, INFO, LOG, "member", "member {member} is gone", "The view is without this member, which had nothing.", \
    NUMBER(member, "", "its number")) \
  EVENT(member_lost, WARN, SAY, "member", "{name} is lost; {effect}", \
    "A member was lost, and the program goes on without it (dmirun --survive).", \
    NUMBER(member, "", "its number") \
    NUMBER(id, "", "its dmi_id") \
    TEXT(host, "", "its machine") \
    TEXT(name, "", "of it, for people") \
    NUMBER(pages, "", "whose bytes nobody has any more; of several members lost together, with the last event") \
    TEXT(effect, "", "why it was lost, if it has told that, and what becomes of the program, for people")) \
  EVENT(coordinating, INFO, NOT, "member", "", "This process is the coordinator from now on.", \
    NUMBER(view, "", "since this one")) \
  EVENT(stalled, WARN, SAY, "member", "waiting for {name} since {since}: it does not answer; {effect}", \
    "Another process owes this one an answer, and gives no sign of life.", \
    NUMBER(member, "", "its number") \
    TEXT(name, "", "of it, for people") \
    TIME(since, "s", "of the last sign of life") \
    TEXT(effect, "", "what waits")) \
  EVENT(answers, WARN, SAY, "member", "{name} answers again", "A process that had stalled gives a sign of life.", \
    NUMBER(member, "", "its number") \
    TEXT(name, "", "of it, for people")) \
  EVENT(member_connected, INFO, LOG, "net", "connected with member {member} at {address}", \
    "There is a connection with this member.", \
    NUMBER(member, "", "its number") \
    TEXT(address, "", "its address and port")) \
  EVENT(stranger_connected, INFO, LOG, "net", "connected with {address}, which is {what}", \
    "There is a connection with a process that has no number here yet.", \
    TEXT(address, "", "its address and port") \
    TEXT(what, "", "to be joined, or no member yet")) \
  EVENT(connection_closed, INFO, LOG, "net", "closed the connection with {address}: {why}", \
    "A connection has ended in order.", \
    TEXT(address, "", "of the other end") \
    TEXT(why, "", "a reason for people")) \
  EVENT(connection_lost, INFO, LOG, "net", "lost the connection with {address}: {why}", \
    "A connection has broken.", \
    TEXT(address, "", "of the other end") \
    TEXT(why, "", "a reason for people")) \
  EVENT(refused, WARN, SAY, "net", "{text}", "A connection from outside the program was refused or closed, or there are too many.", \
    TEXT(text, "", "a sentence for people")) \
  EVENT(connecting, DEBUG, LOG, "net", "connecting to {host} port {port}", "An attempt to connect begins.", \
    TEXT(host, "", "name or address") \
    NUMBER(port, "", "of it")) \
  EVENT(connect_failed, DEBUG, LOG, "net", "{why}", "An attempt to connect has failed.", \
    TEXT(why, "", "a sentence for people")) \
  EVENT(connect_again, DEBUG, LOG, "net", "{host} port {port}: once more", "It is made once more.", \
    TEXT(host, "", "name or address") \
    NUMBER(port, "", "of it")) \
  EVENT(thread_begun, DEBUG, LOG, "thread", "thread {thread} begins, created by member {creator}", \
    "A DMI thread begins here.", \
    NUMBER(thread, "", "its number") \
    NUMBER(creator, "", "member that called DMI_create")) \
  EVENT(thread_ended, DEBUG, LOG, "thread", "thread {thread} has ended", "A DMI thread has ended here.", \
    NUMBER(thread, "", "its number")) \
  EVENT(page_given, DEBUG, NOT, "memory", "", "This process is no longer the owner of this page.", \
    ADDRESS(mapping, "", "first byte of its mapping") \
    NUMBER(page, "", "its number there") \
    NUMBER(bytes, "bytes", "its size") \
    NUMBER(to, "", "member that is the owner now")) \
  EVENT(page_taken, DEBUG, NOT, "memory", "", "This process is the owner of this page now.", \
    ADDRESS(mapping, "", "first byte of its mapping") \
    NUMBER(page, "", "its number there") \
    NUMBER(bytes, "bytes", "its size") \
    NUMBER(from, "", "member that was the owner")) \
  EVENT(memory_short, DEBUG, NOT, "memory", "", "A write to this page waits for memory in this process.", \
    ADDRESS(mapping, "", "first byte of its mapping") \
    NUMBER(page, "", "its number there") \
    NUMBER(bytes, "bytes", "its size")) \
  EVENT(lock_taken, DEBUG, NOT, "sync", "", "A thread of this process has taken a lock (DMI_mutex_lock and the like).", \
    ADDRESS(lock, "", "where it is") \
    NUMBER(waited, "ns", "for it")) \
  EVENT(unmapped, DEBUG, LOG, "memory", "mapping {mapping} is unmapped", "A mapping was freed.", \
    ADDRESS(mapping, "", "its first byte")) \
  EVENT(call_queued, DEBUG, NOT, "remote", "", "A call of a remote function has come to this process.", \
    TEXT(client, "", "member that has issued it, and the number of its client") \
    NUMBER(call, "", "its number there") \
    TEXT(function, "", "its name")) \
  EVENT(call_complete, DEBUG, NOT, "remote", "", "It is known where all inputs of the call are.", \
    TEXT(client, "", "as above") \
    NUMBER(call, "", "its number")) \
  EVENT(call_fired, DEBUG, NOT, "remote", "", "The function begins.", \
    TEXT(client, "", "as above") \
    NUMBER(call, "", "its number") \
    NUMBER(worker, "", "its place among those that run in this process, from 0") \
    TEXT(function, "", "its name")) \
  EVENT(call_done, DEBUG, NOT, "remote", "", "The function has returned, and its outputs can be read; or it has failed.", \
    TEXT(client, "", "as above") \
    NUMBER(call, "", "its number") \
    NUMBER(worker, "", "as above") \
    TEXT(function, "", "its name") \
    NUMBER(us, "us", "since it began") \
    NUMBER(failed, "", "1: it has failed")) \
  EVENT(value_fetched, DEBUG, NOT, "remote", "", "Bytes of an input have come from another process.", \
    TEXT(client, "", "as above") \
    NUMBER(value, "", "its number there") \
    NUMBER(bytes, "bytes", "its size") \
    NUMBER(us, "us", "since they were asked for")) \
  EVENT(call_returned, DEBUG, NOT, "remote", "", "The call was given back before it began.", \
    TEXT(client, "", "as above") \
    NUMBER(call, "", "its number"))
/* clang-format on */

#endif
