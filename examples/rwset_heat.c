/*
 * rwset_heat.c - heat that spreads over an irregular mesh, by machines that come and go.
 *
 *   dmicc -O2 rwset_heat.c -o rwset_heat -lm
 *   dmirun ./rwset_heat 20000 12 400     starts: 20000 points, 12 domains, 400 steps
 *   dmirun -i HOST ./rwset_heat          joins; Ctrl+C leaves
 *
 * A fourth argument makes it wait for so many processes before it begins.
 *
 * The mesh is a set of points, each connected to those that are near; heat flows from warmer points
 * to colder ones.  The points are divided among domains, whose shapes and neighbours are as
 * irregular as the mesh.  A domain computes its own points and needs, for each step, the values of
 * some of its neighbours' points: a read-write-set.  There are two of them, for the values of this
 * step and the next, so that one barrier a step is enough.
 *
 * One thread works for each domain.  After every PHASE steps the threads end, and the domains are
 * divided again among the processes that are there then; a domain has no state but its values.  At
 * the end DMI_main computes everything again alone and prints `correct` if all values are the same,
 * to the last bit.
 */
#include <math.h>

#include "check.h"

#define PHASE 50 /* steps after which processes can join and leave */

/* ---- The mesh: the same in every process ---------------------------------------------------- */

typedef struct {
  int64_t num;     /* points */
  double *x, *y;   /* in the unit square */
  int32_t *domain; /* of each point */
  int64_t *first;  /* num + 1: where the connections of each point begin */
  int64_t *to;     /* the other end of each connection */
  double *weight;  /* how well heat flows along a connection */
} mesh_t;

/* A number from 0 to 1 that looks random, and is the same in every process. */
static double noise(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* The domain of a point: that with the nearest centre. */
static int32_t nearest_centre(double x, double y, int32_t domain_num) {
  int32_t best = 0;
  double least = 9;
  for (int32_t i = 0; i < domain_num; i++) {
    const double dx = x - noise(5, (uint64_t)i), dy = y - noise(6, (uint64_t)i);
    if (dx * dx + dy * dy < least) {
      least = dx * dx + dy * dy;
      best = i;
    }
  }
  return best;
}

/* Writes the connections of point i to `to` and `weight`, unless these are NULL; returns how many
 * there are.  Points are sorted into square boxes as wide as the longest connection, so that only
 * nine boxes must be searched for each point. */
static int64_t ties_of(const mesh_t *mesh, int64_t i, const int64_t *box, const int64_t *in_box,
                       int64_t boxes, int64_t *to, double *weight) {
  const double most = 1.0 / (double)boxes;
  const int64_t column = (int64_t)(mesh->x[i] * (double)boxes);
  const int64_t row = (int64_t)(mesh->y[i] * (double)boxes);
  int64_t num = 0;
  for (int64_t r = row - 1; r <= row + 1; r++) {
    for (int64_t c = column - 1; c <= column + 1; c++) {
      if (r < 0 || c < 0 || r >= boxes || c >= boxes) continue;
      for (int64_t k = box[r * boxes + c]; k < box[r * boxes + c + 1]; k++) {
        const int64_t other = in_box[k];
        const double dx = mesh->x[i] - mesh->x[other], dy = mesh->y[i] - mesh->y[other];
        const double far = sqrt(dx * dx + dy * dy);
        if (other == i || far > most) continue;
        if (to != NULL) {
          to[num] = other;
          weight[num] = 1 - far / most;
        }
        num++;
      }
    }
  }
  return num;
}

static mesh_t mesh_make(int64_t num, int32_t domain_num) {
  mesh_t mesh = {.num = num};
  const int64_t boxes = (int64_t)(sqrt((double)num) / 1.6) + 1;
  int64_t *box = calloc((size_t)(boxes * boxes) + 2, sizeof(int64_t));
  int64_t *in_box = my_malloc((size_t)num * sizeof(int64_t));
  if (box == NULL) abort();
  mesh.x = my_malloc((size_t)num * sizeof(double));
  mesh.y = my_malloc((size_t)num * sizeof(double));
  mesh.domain = my_malloc((size_t)num * sizeof(int32_t));
  mesh.first = my_malloc((size_t)(num + 1) * sizeof(int64_t));
  for (int64_t i = 0; i < num; i++) {
    const double s = noise(1, (uint64_t)i);
    mesh.x[i] = s * (0.5 + s / 2); /* denser on one side */
    mesh.y[i] = noise(2, (uint64_t)i);
    mesh.domain[i] = nearest_centre(mesh.x[i], mesh.y[i], domain_num);
  }
  /* How many points each box has, then where they begin, then the points themselves. */
#define BOX_OF(i) \
  ((int64_t)(mesh.y[i] * (double)boxes) * boxes + (int64_t)(mesh.x[i] * (double)boxes))
  for (int64_t i = 0; i < num; i++)
    box[BOX_OF(i) + 2]++;
  for (int64_t b = 2; b < boxes * boxes + 2; b++)
    box[b] += box[b - 1];
  for (int64_t i = 0; i < num; i++)
    in_box[box[BOX_OF(i) + 1]++] = i;
  mesh.first[0] = 0;
  for (int64_t i = 0; i < num; i++)
    mesh.first[i + 1] = mesh.first[i] + ties_of(&mesh, i, box, in_box, boxes, NULL, NULL);
  mesh.to = my_malloc((size_t)(mesh.first[num] + 1) * sizeof(int64_t));
  mesh.weight = my_malloc((size_t)(mesh.first[num] + 1) * sizeof(double));
  for (int64_t i = 0; i < num; i++) {
    ties_of(&mesh, i, box, in_box, boxes, mesh.to + mesh.first[i], mesh.weight + mesh.first[i]);
  }
  free(box);
  my_free(in_box);
  return mesh;
}

static void mesh_free(mesh_t *mesh) {
  my_free(mesh->x);
  my_free(mesh->y);
  my_free(mesh->domain);
  my_free(mesh->first);
  my_free(mesh->to);
  my_free(mesh->weight);
}

static double warmth_at_first(const mesh_t *mesh, int64_t i) {
  return mesh->x[i] < 0.2 ? 100 : 0;
}

/* The value of point i in the next step.  place[k] is the index of point k in `values`; NULL: k
 * itself.  The sum is in the order of the connections, so that every process gets the same result.
 */
static double next_value(const mesh_t *mesh, int64_t i, const double *values,
                         const int64_t *place) {
  const double mine = values[place == NULL ? i : place[i]];
  double sum = 0;
  for (int64_t k = mesh->first[i]; k < mesh->first[i + 1]; k++) {
    const int64_t other = mesh->to[k];
    sum += mesh->weight[k] * (values[place == NULL ? other : place[other]] - mine);
  }
  return mine + 0.02 * sum;
}

/* ---- The arguments of threads, in global memory --------------------------------------------- */

typedef struct {
  int64_t point_num;
  int32_t domain_num;
  int32_t from, to;      /* steps of this phase */
  int64_t rwset_addr[2]; /* the values of even and of odd steps */
  int64_t barrier_addr;  /* DMI_barrier_t */
} phase_t;

typedef struct {
  int64_t phase_addr;
  int32_t domain;
} task_t;

/* ---- A domain ------------------------------------------------------------------------------- */

/* Fills `points`: first the domain's own points, then those of others that it reads.  place[i]
 * becomes the index of point i there.  Returns how many are its own; *num: all. */
static int32_t domain_points(const mesh_t *mesh, int32_t domain, int64_t *points, int64_t *place,
                             int32_t *num) {
  int32_t own = 0;
  for (int64_t i = 0; i < mesh->num; i++) {
    place[i] = -1;
    if (mesh->domain[i] != domain) continue;
    place[i] = own;
    points[own++] = i;
  }
  *num = own;
  for (int32_t p = 0; p < own; p++) {
    for (int64_t k = mesh->first[points[p]]; k < mesh->first[points[p] + 1]; k++) {
      const int64_t other = mesh->to[k];
      if (place[other] >= 0) continue;
      place[other] = *num;
      points[(*num)++] = other;
    }
  }
  return own;
}

static void run_domain(const phase_t *phase, int32_t domain) {
  mesh_t mesh = mesh_make(phase->point_num, phase->domain_num);
  int64_t *points = my_malloc((size_t)mesh.num * sizeof(int64_t));
  int64_t *place = my_malloc((size_t)mesh.num * sizeof(int64_t));
  int32_t num;
  const int32_t own = domain_points(&mesh, domain, points, place, &num);
  double *values = my_malloc((size_t)(num + 1) * sizeof(double));
  double *next = my_malloc((size_t)(own + 1) * sizeof(double));
  DMI_local_rwset_t local[2];
  DMI_local_barrier_t barrier;

  CHECK(DMI_local_barrier_init(&barrier, phase->barrier_addr));
  if (phase->from == 0) {
    for (int which = 0; which < 2; which++)
      CHECK(DMI_rwset_decompose(phase->rwset_addr[which], domain, points, own));
    CHECK(DMI_local_barrier_sync(&barrier, phase->domain_num));
  }
  for (int which = 0; which < 2; which++)
    CHECK(DMI_local_rwset_init(&local[which], phase->rwset_addr[which], domain, points, num));
  if (phase->from == 0) {
    for (int32_t p = 0; p < own; p++)
      next[p] = warmth_at_first(&mesh, points[p]);
    CHECK(DMI_local_rwset_write(&local[0], next, NULL));
    CHECK(DMI_local_barrier_sync(&barrier, phase->domain_num));
  }
  for (int32_t step = phase->from; step < phase->to; step++) {
    /* The domain's own values are here: only those of the neighbours are fetched. */
    CHECK(DMI_local_rwset_read(&local[step % 2], values, NULL));
    for (int32_t p = 0; p < own; p++)
      next[p] = next_value(&mesh, points[p], values, place);
    CHECK(DMI_local_rwset_write(&local[(step + 1) % 2], next, NULL));
    CHECK(DMI_local_barrier_sync(&barrier, phase->domain_num));
  }
  for (int which = 0; which < 2; which++)
    CHECK(DMI_local_rwset_destroy(&local[which]));
  CHECK(DMI_local_barrier_destroy(&barrier));
  my_free(next);
  my_free(values);
  my_free(place);
  my_free(points);
  mesh_free(&mesh);
}

int64_t DMI_thread(int64_t addr) {
  task_t task;
  phase_t phase;
  CHECK(DMI_read(addr, sizeof(task), &task, DMI_GET_READ, NULL));
  CHECK(DMI_read(task.phase_addr, sizeof(phase), &phase, DMI_GET_READ, NULL));
  run_domain(&phase, task.domain);
  return 0;
}

/* ---- Who is there --------------------------------------------------------------------------- */

typedef struct {
  int32_t num, room;
  int32_t *ids;
} crew_t;

/* A process joins or leaves.  The last one stays, since it has all the values.  One whose pages fit
 * nowhere else stays until its DMI_CLOSE comes again. */
static void crew_change(crew_t *crew, const DMI_node_t *node) {
  if (node->state == DMI_OPEN) {
    CHECK(DMI_welcome(node->dmi_id));
    if (crew->num == crew->room) {
      crew->room = 2 * crew->room + 8;
      crew->ids = realloc(crew->ids, (size_t)crew->room * sizeof(int32_t));
      if (crew->ids == NULL) abort();
    }
    crew->ids[crew->num++] = node->dmi_id;
    return;
  }
  if (crew->num == 1) return;
  if (!check_goodbye(node->dmi_id)) return;
  for (int32_t i = 0; i < crew->num; i++) {
    if (crew->ids[i] != node->dmi_id) continue;
    crew->ids[i] = crew->ids[--crew->num];
    break;
  }
}

static void crew_look(crew_t *crew, int32_t wanted) {
  DMI_node_t node;
  int32_t there = DMI_TRUE;
  while (crew->num < wanted) {
    CHECK(DMI_poll(&node));
    crew_change(crew, &node);
  }
  for (;;) {
    CHECK(DMI_peek(&node, &there));
    if (there != DMI_TRUE) return;
    crew_change(crew, &node);
  }
}

/* ---- The program ---------------------------------------------------------------------------- */

/* Runs one phase: a thread for each domain, divided among the processes. */
static void run_phase(const phase_t *phase, const crew_t *crew, int64_t phase_addr,
                      int64_t tasks_addr) {
  DMI_thread_t *threads = my_malloc((size_t)phase->domain_num * sizeof(DMI_thread_t));
  CHECK(DMI_write(phase_addr, sizeof(*phase), phase, DMI_EXCLUSIVE_WRITE, NULL));
  for (int32_t i = 0; i < phase->domain_num; i++) {
    const task_t task = {.phase_addr = phase_addr, .domain = i};
    const int64_t addr = tasks_addr + i * (int64_t)sizeof(task);
    CHECK(DMI_write(addr, sizeof(task), &task, DMI_EXCLUSIVE_WRITE, NULL));
    CHECK(DMI_create(&threads[i], crew->ids[i % crew->num], addr, NULL));
  }
  for (int32_t i = 0; i < phase->domain_num; i++)
    CHECK(DMI_join(threads[i], NULL, NULL));
  my_free(threads);
}

/* Computes everything alone, and compares it with the results of the domains.  Returns how many
 * differ. */
static int64_t compare(const phase_t *phase, int32_t steps) {
  mesh_t mesh = mesh_make(phase->point_num, phase->domain_num);
  const size_t bytes = (size_t)mesh.num * sizeof(double);
  double *now = my_malloc(bytes), *next = my_malloc(bytes), *found = my_malloc(bytes);
  int64_t *points = my_malloc((size_t)mesh.num * sizeof(int64_t)), wrong = 0;
  DMI_local_rwset_t all;
  for (int64_t i = 0; i < mesh.num; i++) {
    points[i] = i;
    now[i] = warmth_at_first(&mesh, i);
  }
  for (int32_t step = 0; step < steps; step++) {
    double *old = now;
    for (int64_t i = 0; i < mesh.num; i++)
      next[i] = next_value(&mesh, i, now, NULL);
    now = next;
    next = old;
  }
  CHECK(DMI_local_rwset_init(&all, phase->rwset_addr[steps % 2], 0, points, (int32_t)mesh.num));
  CHECK(DMI_local_rwset_read(&all, found, NULL));
  CHECK(DMI_local_rwset_destroy(&all));
  for (int64_t i = 0; i < mesh.num; i++)
    wrong += found[i] != now[i];
  my_free(points);
  my_free(found);
  my_free(next);
  my_free(now);
  mesh_free(&mesh);
  return wrong;
}

void DMI_main(int argc, char **argv) {
  crew_t crew = {0, 0, NULL};
  phase_t phase = {0};
  int64_t sets_addr, phase_addr, tasks_addr, wrong;
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: dmirun %s point_num domain_num step_num [process_num]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  phase.point_num = check_number("point_num", argv[1], 1);
  phase.domain_num = check_number("domain_num", argv[2], 1);
  const int32_t steps = check_number("step_num", argv[3], 0);
  crew_look(&crew, argc == 5 ? check_number("process_num", argv[4], 1) : 1);

  CHECK(DMI_mmap(&sets_addr, sizeof(DMI_rwset_t), 2, NULL));
  CHECK(DMI_mmap(&phase_addr, sizeof(phase), 1, NULL));
  CHECK(DMI_mmap(&tasks_addr, sizeof(task_t), phase.domain_num, NULL));
  CHECK(DMI_mmap(&phase.barrier_addr, sizeof(DMI_barrier_t), 1, NULL));
  CHECK(DMI_barrier_init(phase.barrier_addr));
  for (int which = 0; which < 2; which++) {
    phase.rwset_addr[which] = sets_addr + which * (int64_t)sizeof(DMI_rwset_t);
    CHECK(
        DMI_rwset_init(phase.rwset_addr[which], phase.point_num, sizeof(double), phase.domain_num));
  }
  do {
    phase.to = phase.from + PHASE < steps ? phase.from + PHASE : steps;
    run_phase(&phase, &crew, phase_addr, tasks_addr);
    printf("%d steps, %d processes\n", phase.to, crew.num);
    fflush(stdout);
    phase.from = phase.to;
    crew_look(&crew, 1);
  } while (phase.from < steps);

  wrong = compare(&phase, steps);
  for (int which = 0; which < 2; which++)
    CHECK(DMI_rwset_destroy(phase.rwset_addr[which]));
  free(crew.ids);
  if (wrong > 0) {
    printf("wrong: %lld values differ\n", (long long)wrong);
    CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
    return;
  }
  printf("correct\n");
}
