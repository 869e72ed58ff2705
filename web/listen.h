/*
 * listen.h - a socket for [ADDR:]PORT.
 */
#ifndef WEB_LISTEN_H
#define WEB_LISTEN_H

/* A socket that listens, and its port; -1: *why says why not. */
int web_listen(const char *place, unsigned *port, const char **why);

#endif
