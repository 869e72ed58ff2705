/*
 * module.h - included first in a test program that is compiled as a module (nodes.c): what it
 * prints goes to the stream of its node, and figures of the library come by way of nodes.c.
 */
#ifndef TEST_NODES_MODULE_H
#define TEST_NODES_MODULE_H

/* Before the first header, where a program would define it. */
#define _GNU_SOURCE
#include <stdio.h>

/* Each node has a copy of the module, and so of this. */
__attribute__((visibility("default"))) extern FILE *nodes_out;
__attribute__((weak)) FILE *nodes_out;

#undef stdout
#undef putchar
#undef puts
#define stdout nodes_out
#define printf(...) fprintf(nodes_out, __VA_ARGS__)
#define vprintf(format, args) vfprintf(nodes_out, format, args)
#define putchar(c) fputc(c, nodes_out)
#define puts(text) fprintf(nodes_out, "%s\n", text)

/* A signal that a program sends itself is for its node; a thread that it makes belongs to that. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
int nodes_raise(int number);
int nodes_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *arg),
                         void *arg);
#define raise nodes_raise
#define kill(pid, number) nodes_raise(number)
#define atexit(function) ((void)(function)) /* all nodes end then */
#define pthread_create nodes_pthread_create

/* The library's are hidden. */
#define dmi_runtime_access nodes_runtime_access
#define dmi_access_sent nodes_access_sent
#define dmi_access_messages nodes_access_messages
#define dmi_access_bytes nodes_access_bytes
#define dmi_access_tables nodes_access_tables
#define dmi_access_waiting nodes_access_waiting

#endif
