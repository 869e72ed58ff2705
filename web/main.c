/*
 * main.c - dmi-web: the HTTP server behind dmirun --web.  It knows nothing of DMI:
 * bin/lib/DMI/Web.pm starts it, and tells it what there is to see (docs/web.md).
 *
 *   dmi-web [ADDR:]PORT          ADDR: 127.0.0.1; PORT 0: any
 *   stdin:  pieces (feed.h)
 *   stdout: listening PORT | pages COUNT | scrape
 *
 * It ends with its stdin.  Failure modes: a line on stderr, and status 1.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "feed.h"
#include "http.h"
#include "listen.h"

#define GOODBYE_MS 1000 /* for pages to get the last event */

struct web {
  struct web_http *http;
  struct web_feed *feed;
};

static void fail(const char *what, const char *why) {
  fprintf(stderr, "dmirun: --web %s: %s\n", what, why);
  exit(1);
}

/* Nobody reads any more: the end of stdin comes, too. */
static void say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  fflush(stdout);
}

static void on_pages(void *arg, size_t count) {
  (void)arg;
  say("pages %zu\n", count);
}

static void on_scrape(void *arg) {
  (void)arg;
  say("scrape\n");
}

/* False: whoever feeds us makes no sense, or there is no memory. */
static bool take(struct web *web, const struct web_piece *piece) {
  if (strcmp(piece->kind, "page") == 0)
    return web_http_page(web->http, piece->bytes, piece->length);
  if (strcmp(piece->kind, "token") == 0) {
    web_http_token(web->http, piece->bytes);
  } else if (strcmp(piece->kind, "event") == 0) {
    return web_http_event(web->http, piece->name, piece->bytes, piece->length);
  } else if (strcmp(piece->kind, "metrics") == 0 || strcmp(piece->kind, "absent") == 0) {
    web_http_metrics(web->http, piece->kind[0] == 'm', piece->bytes, piece->length);
  } else {
    return false;
  }
  return true;
}

/* Reads what there is on stdin.  False: it has ended. */
static bool feed(struct web *web) {
  char bytes[65536];
  ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  for (size_t at = 0; count > 0 && at < (size_t)count;) {
    size_t length = (size_t)count - at;
    struct web_piece piece;
    enum web_fed fed = web_feed_take(web->feed, bytes + at, &length, &piece);
    bool good = fed == WEB_FED_MORE || (fed == WEB_FED_PIECE && take(web, &piece));
    if (fed == WEB_FED_PIECE) {
      sodium_memzero(piece.bytes, piece.length);
      free(piece.bytes);
    }
    if (!good) fail("stdin", "not what it can be told");
    at += length;
  }
  return count > 0;
}

static void serve(struct web *web) {
  struct pollfd wait[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                          {.fd = web_http_descriptor(web->http), .events = POLLIN}};
  bool more = true;
  while (more) {
    int count = poll(wait, 2, web_http_timeout(web->http));
    if (count < 0 && errno != EINTR) fail("poll", strerror(errno));
    if (count > 0 && wait[0].revents) more = feed(web);
    if (!web_http_run(web->http)) fail("the server", "it cannot go on");
  }
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Pages get the last events. */
static void say_goodbye(struct web *web) {
  long long end = now_ms() + GOODBYE_MS;
  struct pollfd wait = {.fd = web_http_descriptor(web->http), .events = POLLIN};
  web_http_end(web->http);
  while (web_http_run(web->http) && web_http_pages(web->http)) {
    long long left = end - now_ms();
    int most = web_http_timeout(web->http);
    if (left <= 0) return;
    (void)poll(&wait, 1, most >= 0 && most < left ? most : (int)left);
  }
}

int main(int argc, char **argv) {
  struct web web = {0};
  const struct web_http_asks asks = {.arg = &web, .pages = on_pages, .scrape = on_scrape};
  unsigned port;
  int listening;
  const char *why = NULL;
  if (argc != 2) fail("dmi-web", "it is started by dmirun");
  if (sodium_init() < 0) fail("libsodium", "it does not work here");
  signal(SIGPIPE, SIG_IGN);
  listening = web_listen(argv[1], &port, &why);
  if (listening < 0) fail(argv[1], why);
  web.feed = web_feed_new();
  web.http = web_http_new(listening, &asks);
  if (!web.feed || !web.http) fail(argv[1], "the server does not start");
  say("listening %u\n", port);
  serve(&web);
  say_goodbye(&web);
  web_http_free(web.http);
  web_feed_free(web.feed);
  return 0;
}
