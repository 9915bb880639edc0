// Measures forwarders against each other, in interleaved rounds, through the same fake usbmuxd socket. See usage().
#define _GNU_SOURCE
#include "document.h"
#include "forwarder.h"
#include "load.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAXIMUM_PEERS = 8, MAXIMUM_ROUNDS = 99, IDLE = 1000 };

// What is measured

enum figure {
  DOWN_1, DOWN_8, DOWN_64, UP_1, UP_8, UP_64,
  CPU_DOWN_1, CPU_DOWN_64, CPU_UP_1, CPU_UP_64,
  FAIRNESS, TRIP_P50, TRIP_P99, BUSY_TRIP_P50, BUSY_TRIP_P99,
  VISITS_1, VISITS_16, CPU_VISIT,
  START, PSS_IDLE, ANONYMOUS_IDLE, PSS_CONNECTION, THREADS,
  FIGURES
};

enum wanted { NOTHING, RATIO_AT_LEAST, RATIO_AT_MOST, AT_LEAST, AT_MOST };

// The wanted ratios are to the first peer that is not the program itself.
static const struct {
  const char *name;
  enum wanted wanted;
  double limit;
  int decimals;
  double ratio_limit;  // Must not be exceeded either, where there is one.
} figures[FIGURES] = {
    [DOWN_1] = {"download, 1 stream, MB/s", RATIO_AT_LEAST, 1.4, 0},
    [DOWN_8] = {"download, 8 streams", RATIO_AT_LEAST, 1.3, 0},
    [DOWN_64] = {"download, 64 streams", RATIO_AT_LEAST, 1.2, 0},
    [UP_1] = {"upload, 1 stream, MB/s", RATIO_AT_LEAST, 2, 0},
    [UP_8] = {"upload, 8 streams", RATIO_AT_LEAST, 2, 0},
    [UP_64] = {"upload, 64 streams", RATIO_AT_LEAST, 3, 0},
    [CPU_DOWN_1] = {"CPU s per GB, download, 1 stream", RATIO_AT_MOST, 0.6, 2},
    [CPU_DOWN_64] = {"CPU s per GB, download, 64", RATIO_AT_MOST, 0.5, 2},
    [CPU_UP_1] = {"CPU s per GB, upload, 1 stream", RATIO_AT_MOST, 0.25, 2},
    [CPU_UP_64] = {"CPU s per GB, upload, 64", RATIO_AT_MOST, 0.15, 2},
    [FAIRNESS] = {"slowest by fastest of 64 downloads", AT_LEAST, 0.85, 2},
    [TRIP_P50] = {"64-byte round trip, one CPU, p50 us", RATIO_AT_MOST, 1.05, 1},
    [TRIP_P99] = {"the same, p99 us", RATIO_AT_MOST, 1, 1},
    [BUSY_TRIP_P50] = {"round trip beside a download, p50 us", RATIO_AT_MOST, 1, 0},
    [BUSY_TRIP_P99] = {"the same, p99 us", NOTHING, 0, 0},
    [VISITS_1] = {"connections per second, one by one, one CPU", NOTHING, 0, 0},
    [VISITS_16] = {"connections per second, 16 at a time", NOTHING, 0, 0},
    [CPU_VISIT] = {"CPU us per connection, one CPU", NOTHING, 0, 0},
    [START] = {"start until it listens, ms", AT_MOST, 8, 1, 3},
    [PSS_IDLE] = {"PSS when idle, KiB", AT_MOST, 8192, 0},
    [ANONYMOUS_IDLE] = {"of which anonymous, KiB", AT_MOST, 2048, 0},
    [PSS_CONNECTION] = {"PSS for each idle connection, bytes", AT_MOST, 1638, 0},
    [THREADS] = {"threads with 64 downloads", AT_MOST, 4, 0},
};

struct peer {
  const char *name, *command;
  double values[FIGURES][MAXIMUM_ROUNDS];
  int stalled;
};

static struct peer peers[MAXIMUM_PEERS];
static int peer_count, rounds = 5;
static double seconds = 0.5;
static char socket_path[64];
static pid_t phone;
static struct phone_counters *counters;

static void start_phone(void) {
  counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  snprintf(socket_path, sizeof socket_path, "/tmp/phone-%d.sock", getpid());
  phone = fork();
  if (phone == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    phone_serve(socket_path, counters);
  }
  for (int i = 0; access(socket_path, F_OK) && i < 1000; i++) usleep(1000);
}

static void stop_phone(void) {
  if (phone <= 0) return;
  kill(phone, SIGKILL);
  waitpid(phone, NULL, 0);
  unlink(socket_path);
}

// Measuring

static void measure_bulk(struct peer *peer, int round, enum direction direction, int streams, int speed, int cpu) {
  struct forwarder forwarder;
  if (forwarder_start(&forwarder, peer->command, socket_path, 0)) return;
  double before = forwarder_cpu(&forwarder);
  // With many streams each gets a few dozen turns per second, which is few for saying who gets how many.
  struct bulk bulk = load_bulk(forwarder.port, direction, streams, streams < 64 ? seconds : 4 * seconds, counters);
  double used = forwarder_cpu(&forwarder) - before;
  if (bulk.broken) peer->stalled++;
  if (!bulk.bytes) return forwarder_stop(&forwarder);
  peer->values[speed][round] = bulk.megabytes_per_second;
  // The start before the measured time costs too; the bytes of both are about in proportion to their times.
  if (cpu >= 0)
    peer->values[cpu][round] = used / ((double)bulk.bytes / 1e9 * (bulk.seconds + 0.1) / bulk.seconds);
  if (streams == 64 && direction == DOWN) {
    peer->values[FAIRNESS][round] = bulk.fairness;
    peer->values[THREADS][round] = forwarder_threads(&forwarder);
  }
  forwarder_stop(&forwarder);
}

static void pin_all(int one_cpu) {
  pin(0, one_cpu);
  pin(phone, one_cpu);
}

static void measure_trips(struct peer *peer, int round) {
  struct forwarder forwarder;
  pin_all(1);
  if (!forwarder_start(&forwarder, peer->command, socket_path, 1)) {
    struct latency latency = load_round_trips(forwarder.port, seconds, 1 << 20);
    peer->values[TRIP_P50][round] = latency.p50;
    peer->values[TRIP_P99][round] = latency.p99;
    forwarder_stop(&forwarder);
  }
  pin_all(0);
}

static void measure_busy_trips(struct peer *peer, int round) {
  struct forwarder forwarder;
  if (forwarder_start(&forwarder, peer->command, socket_path, 0)) return;
  pid_t reader = fork();
  if (reader == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = dial(forwarder.port, PHONE_SOURCE);
    while (recv(fd, NULL, 1 << 18, MSG_TRUNC) > 0) {}
    _exit(0);
  }
  usleep(100000);
  struct latency latency = load_round_trips(forwarder.port, seconds, 1 << 20);
  peer->values[BUSY_TRIP_P50][round] = latency.p50;
  peer->values[BUSY_TRIP_P99][round] = latency.p99;
  kill(reader, SIGKILL);
  waitpid(reader, NULL, 0);
  forwarder_stop(&forwarder);
}

static void measure_visits(struct peer *peer, int round, int at_once) {
  struct forwarder forwarder;
  pin_all(at_once == 1);
  if (!forwarder_start(&forwarder, peer->command, socket_path, at_once == 1)) {
    double before = forwarder_cpu(&forwarder);
    struct churn churn = load_connections(forwarder.port, at_once, seconds, 1 << 30);
    double used = forwarder_cpu(&forwarder) - before;
    peer->stalled += churn.stalled;
    peer->values[at_once == 1 ? VISITS_1 : VISITS_16][round] = churn.per_second;
    if (at_once == 1 && churn.count) peer->values[CPU_VISIT][round] = used * 1e6 / churn.count;
    forwarder_stop(&forwarder);
  }
  pin_all(0);
}

static void measure_memory(struct peer *peer, int round) {
  static const int counts[] = {IDLE, 400, 100};
  static int descriptors[IDLE];
  for (int i = 0; i < 3; i++) {
    struct forwarder forwarder;
    if (forwarder_start(&forwarder, peer->command, socket_path, 0)) return;
    usleep(200000);
    struct memory idle = forwarder_memory(&forwarder);
    int working = load_idle(forwarder.port, counts[i], descriptors);
    usleep(50000);
    struct memory used = forwarder_memory(&forwarder);
    for (int j = 0; j < counts[i]; j++)
      if (descriptors[j] >= 0) close(descriptors[j]);
    if (i == 0) {
      peer->values[START][round] = forwarder.start_us / 1000;
      peer->values[PSS_IDLE][round] = (double)idle.pss;
      peer->values[ANONYMOUS_IDLE][round] = (double)idle.anonymous;
    }
    forwarder_stop(&forwarder);
    if (working == counts[i] && used.pss > 0) {
      peer->values[PSS_CONNECTION][round] = (double)(used.pss - idle.pss) * 1024 / working;
      return;
    }
    peer->stalled++;
  }
}

static void measure(int figure, struct peer *peer, int round) {
  switch (figure) {
  case DOWN_1: measure_bulk(peer, round, DOWN, 1, DOWN_1, CPU_DOWN_1); break;
  case DOWN_8: measure_bulk(peer, round, DOWN, 8, DOWN_8, -1); break;
  case DOWN_64: measure_bulk(peer, round, DOWN, 64, DOWN_64, CPU_DOWN_64); break;
  case UP_1: measure_bulk(peer, round, UP, 1, UP_1, CPU_UP_1); break;
  case UP_8: measure_bulk(peer, round, UP, 8, UP_8, -1); break;
  case UP_64: measure_bulk(peer, round, UP, 64, UP_64, CPU_UP_64); break;
  case TRIP_P50: measure_trips(peer, round); break;
  case BUSY_TRIP_P50: measure_busy_trips(peer, round); break;
  case VISITS_1: measure_visits(peer, round, 1); break;
  case VISITS_16: measure_visits(peer, round, 16); break;
  case PSS_IDLE: measure_memory(peer, round); break;
  default: break;  // Comes with another one.
  }
}

// The table

struct spread {
  double least, median, most;
};

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static struct spread spread(const double *values) {
  double known[MAXIMUM_ROUNDS];
  int count = 0;
  for (int i = 0; i < rounds; i++)
    if (!isnan(values[i])) known[count++] = values[i];
  if (!count) return (struct spread){NAN, NAN, NAN};
  qsort(known, (size_t)count, sizeof *known, compare);
  double median = count % 2 ? known[count / 2] : (known[count / 2 - 1] + known[count / 2]) / 2;
  return (struct spread){known[0], median, known[count - 1]};
}

// Round by round, so that what disturbs a round disturbs both.
static struct spread ratio(int figure, const struct peer *peer) {
  double ratios[MAXIMUM_ROUNDS];
  for (int i = 0; i < rounds; i++) {
    double base = peer->values[figure][i];
    ratios[i] = base > 0 ? peers[0].values[figure][i] / base : NAN;
  }
  return spread(ratios);
}

static void print_number(FILE *out, double value, int decimals) {
  if (isnan(value)) fprintf(out, " - |");
  else fprintf(out, " %.*f |", decimals, value);
}

static void print_table(FILE *out) {
  fprintf(out, "| figure (medians of %d rounds) | wanted | %s |", rounds, peers[0].name);
  for (int i = 1; i < peer_count; i++) fprintf(out, " %s | ratio to it |", peers[i].name);
  fprintf(out, " holds |\n| --- | --- | --- |");
  for (int i = 1; i < peer_count; i++) fprintf(out, " --- | --- |");
  fprintf(out, " --- |\n");
  for (int figure = 0; figure < FIGURES; figure++) {
    enum wanted wanted = figures[figure].wanted;
    double limit = figures[figure].limit;
    int decimals = figures[figure].decimals;
    fprintf(out, "| %s |", figures[figure].name);
    switch (wanted) {
    case NOTHING: fprintf(out, " |"); break;
    case RATIO_AT_LEAST: fprintf(out, " ratio >= %g |", limit); break;
    case RATIO_AT_MOST: fprintf(out, " ratio <= %g |", limit); break;
    case AT_LEAST: fprintf(out, " >= %g |", limit); break;
    case AT_MOST:
      if (figures[figure].ratio_limit > 0) fprintf(out, " <= %g, ratio <= %g |", limit, figures[figure].ratio_limit);
      else fprintf(out, " <= %g |", limit);
      break;
    }
    double own = spread(peers[0].values[figure]).median, compared = NAN;
    print_number(out, own, decimals);
    for (int i = 1; i < peer_count; i++) {
      print_number(out, spread(peers[i].values[figure]).median, decimals);
      struct spread ratios = ratio(figure, &peers[i]);
      if (i == 1) compared = ratios.median;
      if (isnan(ratios.median)) fprintf(out, " - |");
      else fprintf(out, " %.2f (%.2f-%.2f) |", ratios.median, ratios.least, ratios.most);
    }
    int holds = wanted == RATIO_AT_LEAST ? compared >= limit
              : wanted == RATIO_AT_MOST  ? compared <= limit
              : wanted == AT_LEAST       ? own >= limit
                                         : own <= limit;
    if (figures[figure].ratio_limit > 0 && !isnan(compared)) holds = holds && compared <= figures[figure].ratio_limit;
    int known = wanted != NOTHING && !isnan(wanted == AT_LEAST || wanted == AT_MOST ? own : compared);
    fprintf(out, "%s |\n", !known ? "" : holds ? " yes" : " **no**");
  }
  for (int i = 0; i < peer_count; i++)
    if (peers[i].stalled) fprintf(out, "\n%s: %d connections broke, stalled or were refused.\n", peers[i].name, peers[i].stalled);
}

// Commands

static int usage(void) {
  fputs("usage: bench [--rounds N] [--seconds S] [--only TEXT] [--write FILE] [--peer NAME=COMMAND]... NAME=COMMAND\n"
        "       bench count down|up|trips|connections AMOUNT COMMAND\n\n"
        "The first form measures COMMAND, and every peer that is installed, with {port}, {devport} and {socket}\n"
        "replaced; words NAME=VALUE before the program are its environment. It prints a table, and puts it between\n"
        "the marks of FILE as well; --only takes the figures whose names hold TEXT. The second form makes a forwarder carry so many MiB, round trips or\n"
        "connections, and ends it: for tools that count.\n",
        stderr);
  return 2;
}

static void add_peer(const char *name, const char *command) {
  if (!forwarder_exists(command)) {
    fprintf(stderr, "bench: %s is not installed, so it is left out (%s)\n", name, command);
    return;
  }
  if (peer_count == MAXIMUM_PEERS) return;
  struct peer *peer = &peers[peer_count++];
  peer->name = name;
  peer->command = command;
  for (int i = 0; i < FIGURES; i++)
    for (int j = 0; j < MAXIMUM_ROUNDS; j++) peer->values[i][j] = NAN;
}

static int add_named_peer(char *text) {
  char *command = strchr(text, '=');
  if (!command) return -1;
  *command++ = 0;
  add_peer(text, command);
  return 0;
}

static int count(int argc, char **argv) {
  if (argc != 3) return usage();
  const char *what = argv[0];
  int amount = atoi(argv[1]), failed;
  struct forwarder forwarder;
  start_phone();
  if (forwarder_start(&forwarder, argv[2], socket_path, 0)) {
    fprintf(stderr, "bench: it does not listen: %s\n", argv[2]);
    stop_phone();
    return 1;
  }
  if (!strcmp(what, "trips")) failed = load_round_trips(forwarder.port, 120, amount).count != amount;
  else if (!strcmp(what, "connections")) failed = load_connections(forwarder.port, 1, 120, amount).count != amount;
  else
    failed = load_amount(forwarder.port, *what == 'u' ? UP : DOWN, (uint64_t)amount << 20,
                         strstr(argv[2], "{socket}") ? counters : NULL);
  forwarder_stop(&forwarder);
  stop_phone();
  if (failed) fprintf(stderr, "bench: %s %d did not come through\n", what, amount);
  return failed ? 1 : 0;
}

int main(int argc, char **argv) {
  struct rlimit limit;
  if (!getrlimit(RLIMIT_NOFILE, &limit)) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && !strcmp(argv[1], "count")) return count(argc - 2, argv + 2);
  const char *document = NULL;
  char *own = NULL, *others[MAXIMUM_PEERS];
  int other_count = 0;
  const char *only = "";
  for (int i = 1; i < argc; i++) {
    int has_value = i + 1 < argc;
    if (!strcmp(argv[i], "--rounds") && has_value) rounds = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--seconds") && has_value) seconds = atof(argv[++i]);
    else if (!strcmp(argv[i], "--write") && has_value) document = argv[++i];
    else if (!strcmp(argv[i], "--only") && has_value) only = argv[++i];
    else if (!strcmp(argv[i], "--peer") && has_value && other_count < MAXIMUM_PEERS) others[other_count++] = argv[++i];
    else if (argv[i][0] != '-' && !own) own = argv[i];
    else return usage();
  }
  if (!own || rounds < 1 || rounds > MAXIMUM_ROUNDS || seconds <= 0) return usage();
  if (add_named_peer(own) || !peer_count) return usage();
  add_peer("iproxy", "USBMUXD_SOCKET_ADDRESS=UNIX:{socket} /usr/bin/iproxy {port}:{devport}");
  add_peer("pymobiledevice3", "pymobiledevice3 usbmux forward --usbmux {socket} {port} {devport}");
  for (int i = 0; i < other_count; i++)
    if (add_named_peer(others[i])) return usage();
  start_phone();
  for (int round = 0; round < rounds; round++) {
    for (int figure = 0; figure < FIGURES; figure++)
      for (int i = 0; i < peer_count && strstr(figures[figure].name, only); i++)
        measure(figure, &peers[(i + round) % peer_count], round);
    fprintf(stderr, "bench: round %d of %d is done\n", round + 1, rounds);
  }
  stop_phone();
  print_table(stdout);
  return document ? document_fill(document, "bench", print_table) : 0;
}
