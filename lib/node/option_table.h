/*
 * option_table.h - THE TABLE of what can be set when a process starts: its variable in the
 * environment, and the option of dmirun that sets that.
 *
 * Read by config.c, and by bin/lib/DMI/Options.pm when dmirun, dmimw and their man pages are built,
 * so that `dmirun -h`, dmirun(1) and what the library takes are the same.
 *
 * A new option needs a row here, a field in struct dmi_config, an item in docs/dmi.7.pod, and, if
 * dmirun has it, what bin/lib/DMI/Settings.pm does with its value.
 */
#ifndef DMI_NODE_OPTION_TABLE_H
#define DMI_NODE_OPTION_TABLE_H

/* Field of struct dmi_config; variable; type; least value; value when it is not set; option of
 * dmirun ("": none) and its argument; who sets it; the option's line of `dmirun -h` ("": none).
 *
 * Who sets it is CLEARED: only the option; dmirun clears the variable when the option is not given.
 * KEPT: the option or the environment, for this process.  PROGRAM: the same, for all processes of a
 * program: dmimw passes it on. */
/* clang-format off */
#define DMI_OPTION_TABLE(OPTION) \
  OPTION(join_host, DMI_JOIN_HOST, TEXT, 0, 0, "-i", "host", CLEARED, \
    "join the program of a process at this host (name or address)") \
  OPTION(join_file, DMI_JOIN_FILE, TEXT, 0, 0, "-i", "@FILE", CLEARED, \
    "join the program that wrote this file (--contact)") \
  OPTION(join_port, DMI_JOIN_PORT, PORT, 1, 7880, "-p", "port", CLEARED, \
    "the port of that process (default 7880)") \
  OPTION(listen_port, DMI_LISTEN_PORT, PORT, 0, 7880, "-l", "port", CLEARED, \
    "the port this process listens on (default 7880; 0: any free one; 7900+: 7900, or any free one)") \
  OPTION(listen_else, DMI_LISTEN_ELSE, INT, 0, 0, "-l", "port+", CLEARED, "") \
  OPTION(pool_bytes, DMI_POOL_BYTES, BYTES, 1048576, 2147483648, "-s", "bytes", CLEARED, \
    "memory this process lends to the program (default 2G, at least 1M; suffixes K M G T)") \
  OPTION(advertise, DMI_ADVERTISE, TEXT, 0, 0, "--advertise", "ADDR", CLEARED, \
    "the name or address at which others reach this process (default: as they see it)") \
  OPTION(spill_dir, DMI_SPILL_DIR, TEXT, 0, 0, "--spill", "DIR", CLEARED, \
    "write pages to a file in this directory when no process has memory for them") \
  OPTION(bind_threads, DMI_BIND_THREADS, YES, 0, 0, "--bind-threads", "", CLEARED, \
    "keep each DMI thread on its own processor, spread over the cores") \
  OPTION(share, DMI_SHARE, INT, 1, 1, "--share", "I/N", CLEARED, \
    "of the processors that this process may use, take the I-th of N equal parts") \
  OPTION(shares, DMI_SHARES, INT, 1, 1, "--share", "I/N", CLEARED, "") \
  OPTION(on_error, DMI_ON_ERROR, ON_ERROR, 0, 0, "--on-error", "print|abort", PROGRAM, \
    "print why a call failed; abort: and end the process there") \
  OPTION(check, DMI_CHECK, YES, 0, 0, "--check", "", CLEARED, \
    "show what would be used, try it (port, name, the process to join), and end") \
  OPTION(contact_file, DMI_CONTACT_FILE, TEXT, 0, 0, "--contact", "FILE", CLEARED, \
    "keep in this file where the program can be joined (-i @FILE)") \
  OPTION(ready_fd, DMI_READY_FD, INT, 3, -1, "--ready-fd", "N", CLEARED, \
    "write the port to descriptor N as soon as this process listens (for launchers)") \
  OPTION(parent, DMI_PARENT_PID, INT, 1, 0, "--with-parent", "", CLEARED, \
    "ask to leave when the process that started this one ends (for launchers)") \
  OPTION(grace, DMI_GRACE, SECONDS, 1, 60, "--grace", "SECS", CLEARED, \
    "how long it then has to leave (default 60) before it is killed") \
  OPTION(key_file, DMI_KEY_FILE, TEXT, 0, 0, "--key", "file", KEPT, \
    "the program's key (default ~/.dmi/key, made on first use): whoever has it may join") \
  OPTION(key_fd, DMI_KEY_FD, INT, 0, -1, "--key-fd", "n", CLEARED, \
    "read the key from this descriptor, one line (for scripts)") \
  OPTION(encrypt, DMI_ENCRYPT, YES, 0, 0, "--encrypt", "", CLEARED, \
    "encrypt all that the program sends; for the first process") \
  OPTION(bind, DMI_BIND, TEXT, 0, 0, "--bind", "addr", CLEARED, \
    "listen on this address only, and connect from it (default: all; a process that joins\n" \
    "through one that has --bind listens only on the address from which it joins)") \
  OPTION(no_shm, DMI_NO_SHM, YES, 0, 0, "--no-shm", "", PROGRAM, \
    "talk by TCP also to processes of this user on this host, not by shared memory") \
  OPTION(spin, DMI_SPIN, SPIN, 0, DMI_LOOK_AUTO, "--spin", "auto|off|US", PROGRAM, \
    "look for messages, for so many microseconds, before sleeping (default auto: while that\n" \
    "pays and no thread computes on that processor)") \
  OPTION(survive, DMI_SURVIVE, YES, 0, 0, "--survive", "", PROGRAM, \
    "the program goes on without processes that are lost; to be given to the first process") \
  OPTION(dead_after, DMI_DEAD_AFTER, SECONDS, 0, 60, "--dead-after", "SECONDS", PROGRAM, \
    "a process that is silent for so long is lost (default 60, with --survive 5; 0: never);\n" \
    "to be given to the first process") \
  OPTION(witness, DMI_WITNESS, YES, 0, 0, "--witness", "", CLEARED, \
    "instead of a program: a process that only votes on who goes on after a loss (with -i)") \
  OPTION(see, DMI_SEE, YES, 0, 0, "--status", "", CLEARED, \
    "show who takes part in a running program, and its memory: dmirun --status [HOST[:PORT]]") \
  OPTION(see, DMI_SEE, YES, 0, 0, "--threads", "", CLEARED, \
    "show what each of its threads is doing, and for whom it waits; name deadlocks") \
  OPTION(see, DMI_SEE, YES, 0, 0, "--top", "", CLEARED, \
    "show its processes live, in a terminal; their threads, with Enter; q ends") \
  OPTION(see, DMI_SEE, YES, 0, 0, "--dump", "FILE", CLEARED, \
    "write what --status and --threads show to a file") \
  OPTION(see, DMI_SEE, YES, 0, 0, "--json", "", CLEARED, \
    "show it as JSON, for programs; alone: all that can be seen") \
  OPTION(see, DMI_SEE, YES, 0, 0, "--web", "[ADDR:]PORT", CLEARED, \
    "serve a live page there, and /metrics (ADDR: 127.0.0.1; PORT 0: any), of this\n" \
    "program; if none is given to start, of the running one that -i names") \
  OPTION(trust_refused, DMI_TRUST_REFUSED, YES, 0, 0, "--trust-refused", "", PROGRAM, \
    "with --survive: a process that is silent counts as dead when its port refuses\n" \
    "connections; to be given to the first process") \
  OPTION(events_file, DMI_EVENTS_FILE, TEXT, 0, 0, "--events", "FILE", PROGRAM, \
    "append what happens in this process to a file, for dmitimeline and other programs") \
  OPTION(profile_file, DMI_PROFILE, TEXT, 0, 0, "--profile", "FILE", PROGRAM, \
    "write to a file which lines of the program wait for which pages, how often and how long;\n" \
    "dmirun --profile FILE alone shows it") \
  OPTION(trace, DMI_TRACE, TEXT, 0, 0, "--trace", "FILE", CLEARED, \
    "write what all processes do to a file, for Perfetto and other viewers of Chrome's format") \
  OPTION(ox, DMI_OX, TEXT, 0, 0, "--ox", "[ADDR:]PORT[,[ADDR:]PORT]", CLEARED, \
    "serve OpenXM clients there, in this process (ADDR: 127.0.0.1; PORT 0: any; the second one\n" \
    "is for data connections); for programs with functions for them (DMI_ox_function)") \
  OPTION(port_file, DMI_PORT_FILE, TEXT, 0, 0, "", "", KEPT, "") \
  OPTION(log, DMI_LOG, LEVEL, 0, DMI_LOG_OFF, "", "", PROGRAM, "") \
  OPTION(event_fd, DMI_EVENT_FD, INT, 3, -1, "", "", KEPT, "") \
  OPTION(control_fd, DMI_CONTROL_FD, INT, 3, -1, "", "", KEPT, "") \
  OPTION(event_level, DMI_EVENT_LEVEL, LEVEL, 0, DMI_LOG_INFO, "", "", KEPT, "") \
  OPTION(tag, DMI_TAG, TEXT, 0, 0, "", "", KEPT, "") \
  OPTION(dmirun, DMI_RUN, TEXT, 0, 0, "", "", KEPT, "")
/* clang-format on */

#endif
