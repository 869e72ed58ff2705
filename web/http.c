/*
 * http.c - see http.h.
 *
 * Failure modes: a request that is wrong, or of who does not know the token, is answered by a line
 * and costs its connection; without memory the connection is closed; one on which nothing moves is
 * closed after IDLE, a page's after IDLE_PAGE.
 */
#include "http.h"

#include <microhttpd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "policy.h"
#include "stream.h"

#define IDLE 15           /* seconds */
#define IDLE_PAGE 60      /* the same for a page that is open, and reads nothing */
#define HEADERS 8192      /* bytes of a request, and of what is sent at a time */
#define TOKEN_LONGEST 128 /* bytes, with the NUL */

/* A request between its head and its answer. */
struct request {
  struct request *prev, *next; /* of those that wait for metrics */
  struct MHD_Connection *connection;
  bool waits;
  struct MHD_Response *metrics; /* they have come; with this status */
  unsigned status;
};

struct web_http {
  struct MHD_Daemon *daemon;
  struct MHD_Response *page;
  struct web_streams *streams;
  struct web_http_asks asks;
  struct request *waiting;
  size_t pages; /* that main.c has been told of */
  bool has_token;
  char token[TOKEN_LONGEST]; /* zeros behind its end */
};

/* ---- Answers --------------------------------------------------------------------------------- */

static void add(struct MHD_Response *response, const char *name, const char *value) {
  (void)MHD_add_response_header(response, name, value);
}

static struct MHD_Response *dressed(struct MHD_Response *response, const char *type) {
  if (!response) return NULL;
  add(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  add(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  add(response, "Referrer-Policy", "no-referrer");
  add(response, "X-Content-Type-Options", "nosniff");
  return response;
}

static struct MHD_Response *text(const char *bytes, size_t length, const char *type) {
  /* The library takes no const for bytes that it copies. */
  return dressed(
      MHD_create_response_from_buffer(length, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY),
      type);
}

/* Sends it, and gives up our reference. */
static enum MHD_Result give(struct MHD_Connection *connection, unsigned status,
                            struct MHD_Response *response) {
  enum MHD_Result result;
  if (!response) return MHD_NO;
  result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *line) {
  struct MHD_Response *response = text(line, strlen(line), "text/plain; charset=utf-8");
  if (response && status == MHD_HTTP_METHOD_NOT_ALLOWED)
    add(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  return give(connection, status, response);
}

/* ---- The token ------------------------------------------------------------------------------- */

void web_http_token(struct web_http *http, const char *token) {
  memset(http->token, 0, sizeof(http->token));
  snprintf(http->token, sizeof(http->token), "%s", token);
  http->has_token = http->page && http->token[0] != '\0';
}

/* The time that this takes does not tell how much of it is right. */
static bool is_token(const struct web_http *http, const char *said) {
  char padded[TOKEN_LONGEST] = {0};
  size_t length = said ? strlen(said) : 0;
  bool fits = said && length < sizeof(padded);
  if (fits) memcpy(padded, said, length);
  return (sodium_memcmp(padded, http->token, sizeof(padded)) == 0) && fits && http->has_token;
}

static bool may_ask(const struct web_http *http, struct MHD_Connection *connection) {
  static const char bearer[] = "Bearer ";
  const char *said =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  if (said && strncmp(said, bearer, strlen(bearer)) == 0)
    return is_token(http, said + strlen(bearer));
  return is_token(http, MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token"));
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void tell_pages(struct web_http *http) {
  size_t now = web_streams_count(http->streams);
  if (now == http->pages) return;
  http->pages = now;
  http->asks.pages(http->asks.arg, now);
}

static enum MHD_Result open_stream(struct web_http *http, struct MHD_Connection *connection) {
  struct MHD_Response *response =
      dressed(web_streams_open(http->streams, connection), "text/event-stream; charset=utf-8");
  (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)IDLE_PAGE);
  return give(connection, MHD_HTTP_OK, response);
}

static enum MHD_Result scrape(struct web_http *http, struct request *request) {
  bool first = !http->waiting;
  if (request->metrics) {
    struct MHD_Response *response = request->metrics;
    request->metrics = NULL;
    return give(request->connection, request->status, response);
  }
  request->waits = true;
  DL_APPEND(http->waiting, request);
  MHD_suspend_connection(request->connection);
  if (first) http->asks.scrape(http->asks.arg);
  return MHD_YES;
}

static enum MHD_Result answer(struct web_http *http, struct request *request, const char *url,
                              bool head) {
  struct MHD_Connection *connection = request->connection;
  if (strcmp(url, "/") == 0) return MHD_queue_response(connection, MHD_HTTP_OK, http->page);
  if (strcmp(url, "/events") == 0 && !head) return open_stream(http, connection);
  if (strcmp(url, "/metrics") == 0 && !head) return scrape(http, request);
  return refuse(connection, MHD_HTTP_NOT_FOUND, "there is /, /events and /metrics\n");
}

static bool has(struct MHD_Connection *connection, const char *header) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, header) != NULL;
}

/* Is called when the head of a request has come, again when all of it has, and once more when a
 * connection that was suspended goes on. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_length, void **state) {
  struct web_http *http = arg;
  bool head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
  (void)version;
  (void)body;
  if (*state) {
    *body_length = 0;
    return answer(http, *state, url, head);
  }
  if (!may_ask(http, connection))
    return refuse(connection, MHD_HTTP_FORBIDDEN, "the token is missing or wrong\n");
  if (!head && strcmp(method, MHD_HTTP_METHOD_GET) != 0)
    return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "nothing can be changed here\n");
  if (has(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
      has(connection, MHD_HTTP_HEADER_CONTENT_LENGTH))
    return refuse(connection, MHD_HTTP_BAD_REQUEST, "a request has no body here\n");
  *state = calloc(1, sizeof(struct request));
  if (!*state) return MHD_NO;
  ((struct request *)*state)->connection = connection;
  return MHD_YES;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode how) {
  struct web_http *http = arg;
  struct request *request = *state;
  (void)connection;
  (void)how;
  if (!request) return;
  if (request->waits) DL_DELETE(http->waiting, request);
  if (request->metrics) MHD_destroy_response(request->metrics);
  free(request);
  *state = NULL;
}

/* ---- What main.c tells ------------------------------------------------------------------------
 */

bool web_http_event(struct web_http *http, const char *name, const char *bytes, size_t length) {
  return web_streams_tell(http->streams, name, bytes, length);
}

void web_http_metrics(struct web_http *http, bool good, const char *bytes, size_t length) {
  struct request *request, *next;
  DL_FOREACH_SAFE(http->waiting, request, next) {
    DL_DELETE(http->waiting, request);
    request->waits = false;
    request->status = good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    request->metrics =
        text(bytes, length, good ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain");
    MHD_resume_connection(request->connection);
  }
}

void web_http_end(struct web_http *http) {
  static const char line[] = "the program has ended\n";
  web_http_metrics(http, false, line, strlen(line));
  web_streams_end(http->streams);
}

/* ---- Its life -------------------------------------------------------------------------------- */

bool web_http_page(struct web_http *http, const char *page, size_t length) {
  struct MHD_Response *response = text(page, length, "text/html; charset=utf-8");
  char policy[WEB_POLICY_LONGEST];
  if (!response) return false;
  if (web_policy(page, policy)) add(response, "Content-Security-Policy", policy);
  if (http->page) MHD_destroy_response(http->page);
  http->page = response;
  return true;
}

struct web_http *web_http_new(int listening, const struct web_http_asks *asks) {
  struct web_http *http = calloc(1, sizeof(*http));
  if (!http) return NULL;
  http->asks = *asks;
  http->streams = web_streams_new();
  if (http->streams) {
    http->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http,
                         MHD_OPTION_LISTEN_SOCKET, listening, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)IDLE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)2 * HEADERS,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
  }
  if (http->daemon) return http;
  web_http_free(http);
  return NULL;
}

void web_http_free(struct web_http *http) {
  if (http->daemon) {
    web_http_end(http); /* none may be suspended when the library stops */
    MHD_stop_daemon(http->daemon);
  }
  if (http->page) MHD_destroy_response(http->page);
  web_streams_free(http->streams);
  sodium_memzero(http->token, sizeof(http->token));
  free(http);
}

size_t web_http_pages(const struct web_http *http) {
  return web_streams_count(http->streams);
}

int web_http_descriptor(const struct web_http *http) {
  return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int web_http_timeout(struct web_http *http) {
  MHD_UNSIGNED_LONG_LONG ms;
  if (MHD_get_timeout(http->daemon, &ms) != MHD_YES) return -1;
  return ms < 60000 ? (int)ms : 60000;
}

bool web_http_run(struct web_http *http) {
  enum MHD_Result result = MHD_run(http->daemon);
  tell_pages(http);
  return result == MHD_YES;
}
