/*
 * timeline.c - the picture of who computed when.
 */
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define LEFT 180
#define WIDTH 1000
#define ROW 18
#define TOP 40

struct bar {
  char *host, *name, *status;
  int64_t begin, end;
  uint32_t row;
};

struct farm_timeline {
  struct bar *bars;
  uint32_t num, capacity;
};

struct farm_timeline *farm_timeline_new(void) {
  return farm_alloc(sizeof(struct farm_timeline));
}

void farm_timeline_free(struct farm_timeline *timeline) {
  for (uint32_t i = 0; i < timeline->num; i++) {
    free(timeline->bars[i].host);
    free(timeline->bars[i].name);
    free(timeline->bars[i].status);
  }
  free(timeline->bars);
  free(timeline);
}

void farm_timeline_add(struct farm_timeline *timeline, const char *host, const char *name,
                       int64_t begin, int64_t ms, const char *status) {
  timeline->bars =
      farm_grow(timeline->bars, timeline->num, &timeline->capacity, sizeof(*timeline->bars));
  timeline->bars[timeline->num++] = (struct bar){.host = farm_strdup(host),
                                                 .name = farm_strdup(name),
                                                 .status = farm_strdup(status),
                                                 .begin = begin,
                                                 .end = begin + ms};
}

static int by_host(const void *a, const void *b) {
  const struct bar *one = a, *two = b;
  int order = strverscmp(one->host, two->host);
  if (order) return order;
  return one->begin < two->begin ? -1 : one->begin > two->begin;
}

/* Bars of one host that overlap get different rows.  Returns the number of rows. */
static uint32_t set_rows(struct farm_timeline *timeline) {
  uint32_t first = 0, num = 0, capacity = 0;
  int64_t *ends = NULL; /* of the last bar of each row of this host */
  for (uint32_t i = 0; i < timeline->num; i++) {
    struct bar *bar = &timeline->bars[i];
    uint32_t row = 0;
    if (i && strcmp(bar->host, bar[-1].host) != 0) {
      first += num;
      num = 0;
    }
    while (row < num && ends[row] > bar->begin)
      row++;
    if (row == num) ends = farm_grow(ends, num++, &capacity, sizeof(*ends));
    ends[row] = bar->end;
    bar->row = first + row;
  }
  free(ends);
  return first + num;
}

static void print_text(FILE *file, const char *text) {
  for (; *text; text++) {
    switch (*text) {
      case '<':
        fputs("&lt;", file);
        break;
      case '&':
        fputs("&amp;", file);
        break;
      default:
        fputc((unsigned char)*text < ' ' ? '?' : *text, file);
    }
  }
}

static const char *color(const struct bar *bar) {
  if (strcmp(bar->status, "done") == 0) return "#4a90c2";
  return strcmp(bar->status, "dup") == 0 ? "#b8b8b8" : "#d06a4f";
}

static void print_bar(FILE *file, const struct bar *bar, double scale) {
  double x = LEFT + (double)bar->begin * scale, width = (double)(bar->end - bar->begin) * scale;
  fprintf(file,
          "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"white\" "
          "stroke-width=\"0.5\"><title>",
          x, TOP + bar->row * ROW, width < 0.5 ? 0.5 : width, ROW - 3, color(bar));
  print_text(file, bar->name);
  fprintf(file, ", %.3f s, ", (double)(bar->end - bar->begin) / 1000);
  print_text(file, bar->status);
  fputs("</title></rect>\n", file);
}

static void print_axis(FILE *file, int64_t ms, uint32_t rows) {
  for (int i = 0; i <= 5; i++) {
    double x = LEFT + WIDTH * i / 5.;
    fprintf(file,
            "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%u\" stroke=\"#ddd\"/>"
            "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3f s</text>\n",
            x, TOP - 6, x, TOP + rows * ROW, x, TOP - 12, (double)ms * i / 5000);
  }
}

char *farm_timeline_svg(struct farm_timeline *timeline) {
  char *text = NULL;
  size_t size = 0;
  int64_t last = 1;
  uint32_t rows;
  FILE *file = open_memstream(&text, &size);
  if (!file) return farm_strdup("");
  if (timeline->num) qsort(timeline->bars, timeline->num, sizeof(*timeline->bars), by_host);
  rows = set_rows(timeline);
  for (uint32_t i = 0; i < timeline->num; i++)
    if (timeline->bars[i].end > last) last = timeline->bars[i].end;
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
          "font-family=\"sans-serif\" font-size=\"11\">\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
          LEFT + WIDTH + 40, TOP + rows * ROW + 10);
  print_axis(file, last, rows);
  for (uint32_t i = 0; i < timeline->num; i++) {
    const struct bar *bar = &timeline->bars[i];
    if (!i || strcmp(bar->host, bar[-1].host) != 0) {
      fprintf(file, "<text x=\"4\" y=\"%u\">", TOP + bar->row * ROW + ROW - 6);
      print_text(file, bar->host);
      fputs("</text>\n", file);
    }
    print_bar(file, bar, (double)WIDTH / (double)last);
  }
  fputs("</svg>\n", file);
  fclose(file);
  return text;
}
