/*
 * where.h - the place in a program's source from which a call came.
 */
#ifndef DMI_BASE_WHERE_H
#define DMI_BASE_WHERE_H

#include <stdbool.h>
#include <stddef.h>

#define DMI_WHERE_SIZE 400 /* bytes that are enough for a place */

/* Writes "prog.c:42 (DMI_main)" for a return address, if the program has debug information (cc
 * -g) and libdw of elfutils is installed; otherwise "./prog+0x1234", which addr2line reads, and
 * what is missing. If the compiler has put that function into others:
 * "prog.c:42 (put, inlined in fill at prog.c:60, in DMI_main at prog.c:80)". Functions of dmi.hpp
 * are passed over: their caller's line is told. Any thread; slow. */
void dmi_where(char *text, size_t capacity, const void *caller);

/* What a function is in the list of those that have not returned, for who reads it. */
enum dmi_where_role {
  DMI_WHERE_PLAIN,
  DMI_WHERE_OWN,   /* of dmi.hpp, and nobody is known who calls it: to be passed over */
  DMI_WHERE_FIRST, /* DMI_main, DMI_thread and the like: those below it are not the program's */
  DMI_WHERE_BELOW  /* of DMI, and calls such functions: not the program's, nor are those below */
};

struct dmi_where_function {
  const char *name; /* stays; that of the function into which it was inlined.  NULL: not known */
  enum dmi_where_role role;
};

/* As dmi_where, without what is missing.  False: the line is not known.  `function` may be NULL. */
bool dmi_where_plain(char *text, size_t capacity, const void *caller,
                     struct dmi_where_function *function);

/* A place that has no return address, as those in the source of an interpreter have none: stands
 * for one, here and wherever return addresses are kept.  The text is copied, and stays.  NULL:
 * there is no memory, or there are DMI_WHERE_PLACES already.  Any thread. */
#define DMI_WHERE_PLACES 16384
const void *dmi_where_place(const char *text);

/* Are both addresses in the same shared library?  False where that is not known, and for two of the
 * program's own file. */
bool dmi_where_same_library(const void *one, const void *other);

/* Is libdw there? */
bool dmi_where_names(void);
/* Why a place has no line, and what would mend that; static. */
const char *dmi_where_missing(void);

#endif
