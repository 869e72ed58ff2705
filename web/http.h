/*
 * http.h - who may ask for what, and what is answered (docs/web.md, "Requests").
 *
 * Nothing can be changed by a request, and none is answered without the token.  One thread: that of
 * main.c's loop.
 */
#ifndef WEB_HTTP_H
#define WEB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct web_http;

/* What the server asks of main.c. */
struct web_http_asks {
  void *arg;
  void (*pages)(void *arg, size_t count); /* so many pages are open from now on */
  void (*scrape)(void *arg); /* metrics are wanted; to be answered by web_http_metrics */
};

/* Serves on a socket that listens.  NULL: no memory, or the library cannot. */
struct web_http *web_http_new(int listening, const struct web_http_asks *asks);
void web_http_free(struct web_http *http);

/* The page, to be called before the token is told.  False: no memory. */
bool web_http_page(struct web_http *http, const char *page, size_t length);
/* Until it is called nobody is let in. */
void web_http_token(struct web_http *http, const char *token);
/* False: no memory. */
bool web_http_event(struct web_http *http, const char *name, const char *bytes, size_t length);
/* Answers all that wait for metrics; `good`: by these, else by what is wrong. */
void web_http_metrics(struct web_http *http, bool good, const char *bytes, size_t length);
/* Nothing more will be told: pages are to end when they have the last events. */
void web_http_end(struct web_http *http);
size_t web_http_pages(const struct web_http *http);

int web_http_descriptor(const struct web_http *http); /* readable: web_http_run is to be called */
int web_http_timeout(struct web_http *http);          /* ms, as for poll */
bool web_http_run(struct web_http *http);             /* false: it cannot go on */

#endif
