// Measures tunneld over emulated USB devices against a bare libusb loop and against usbmuxd with iproxy, in rounds that
// take turns. See usage().
#define _GNU_SOURCE
#include "../Tests/USBEmulation/CUMockdev/include/Rings.h"
#include "document.h"
#include "forwarder.h"
#include "load.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAXIMUM_ROUNDS = 99, MANY_DEVICES = 16, PACKET = 0x7ffc };

enum peer { TUNNELD, LOOP, USBMUXD, PEERS };
static const char *const names[PEERS] = {"tunneld", "libusb loop", "usbmuxd + iproxy"};
static const char *const kinds[PEERS] = {"tunneld", "loop", "usbmuxd"};
static const char *programs[PEERS];

static const struct {
  const char *name, *text;
  // Megabytes per second; 0: no limit.
  double rate;
} speeds[] = {
    {"umockdev", "umockdev", 0},
    {"no limit", "0,0,0,1024", 0},
    {"40 MB/s, high speed", "40,100,30,512", 40},
    {"400 MB/s, super speed", "400,50,10,1024", 400},
};
enum { SPEEDS = sizeof speeds / sizeof *speeds };

enum figure {
  DOWNLOAD, UPLOAD, CPU_DOWNLOAD, CPU_UPLOAD, TRIP_P50, TRIP_P99,
  BESIDE_DOWN_P50, BESIDE_DOWN_P99, BESIDE_UP_P50, BESIDE_UP_P99, DELAY_DOWN, DELAY_UP, FIGURES
};

static const struct {
  const char *name;
  int decimals;
  // The wanted ratios to the loop and to usbmuxd; negative: at most. NAN: none.
  double to_loop, to_usbmuxd;
  // What the number itself must not exceed.
  double most;
} figures[FIGURES] = {
    [DOWNLOAD] = {"download, MB/s", 0, 0.9, 5, NAN},
    [UPLOAD] = {"upload, MB/s", 0, 0.9, NAN, NAN},
    [CPU_DOWNLOAD] = {"CPU s per GB, download", 2, NAN, NAN, NAN},
    [CPU_UPLOAD] = {"CPU s per GB, upload", 2, NAN, NAN, NAN},
    [TRIP_P50] = {"64-byte round trip, one CPU, p50 us", 0, -1.2, NAN, NAN},
    [TRIP_P99] = {"the same, p99 us", 0, NAN, NAN, NAN},
    [BESIDE_DOWN_P50] = {"beside a download, p50 us", 0, NAN, NAN, NAN},
    [BESIDE_DOWN_P99] = {"the same, p99 us", 0, NAN, NAN, NAN},
    [BESIDE_UP_P50] = {"beside an upload, p50 us", 0, NAN, NAN, NAN},
    [BESIDE_UP_P99] = {"the same, p99 us", 0, NAN, NAN, NAN},
    [DELAY_DOWN] = {"delay by the download, packet times", 2, NAN, NAN, 1},
    [DELAY_UP] = {"delay by the upload, packet times", 2, NAN, NAN, 1},
};

static double values[PEERS][SPEEDS][FIGURES][MAXIMUM_ROUNDS];
// With one device and with many: CPU time for a GB, and a round trip.
static double devices_cpu[2][MAXIMUM_ROUNDS], devices_trip[2][MAXIMUM_ROUNDS];
static int failures[PEERS];
static int rounds = 5;
static double seconds = 0.7;
static const char *emulator, *preload, *script, *only_speed = "", *only_peer = "";
static int only_bulk;

// Forwarders in front of the emulator

static const struct phone_counters *counters_of(pid_t process) {
  static struct phone_counters none;
  char pattern[64];
  glob_t found;
  const struct phone_counters *counters = &none;
  snprintf(pattern, sizeof pattern, "/dev/shm/usb-rings-%d-*", process);
  if (glob(pattern, 0, NULL, &found)) return counters;
  int fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
  globfree(&found);
  struct cu_ring_shared *ring = mmap(NULL, sizeof *ring, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  // What reached the phone, headers included: a thousandth more than the payload.
  return ring == MAP_FAILED ? counters : (const struct phone_counters *)&ring->bytes_out;
}

static int start(struct forwarder *forwarder, enum peer peer, int speed, int devices, int one_cpu) {
  char command[2048];
  snprintf(command, sizeof command, "%s %s %s %s %d %s %s {port} {devport}", script, emulator, preload,
           speeds[speed].text, devices, kinds[peer], programs[peer]);
  if (forwarder_start(forwarder, command, "", one_cpu)) {
    failures[peer]++;
    return -1;
  }
  // It may listen before it has the phone.
  for (int i = 0; i < 100; i++) {
    if (load_round_trips(forwarder->port, 1, 1).count == 1) return 0;
    usleep(50000);
  }
  failures[peer]++;
  forwarder_stop(forwarder);
  return -1;
}

// Seconds of CPU time of all processes below one.
static double cpu_below(pid_t process) {
  char path[64];
  double sum = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", process, process);
  FILE *file = fopen(path, "re");
  int child;
  while (file && fscanf(file, "%d", &child) == 1) {
    clockid_t clock;
    struct timespec time;
    if (!clock_getcpuclockid(child, &clock) && !clock_gettime(clock, &time))
      sum += (double)time.tv_sec + (double)time.tv_nsec / 1e9;
    sum += cpu_below(child);
  }
  if (file) fclose(file);
  return sum;
}

// Measuring

static double bulk_with_cpu(struct forwarder *forwarder, enum direction direction, double *cpu) {
  double before = cpu_below(forwarder->process);
  struct bulk bulk = load_bulk(forwarder->port, direction, 1, seconds, counters_of(forwarder->process));
  double used = cpu_below(forwarder->process) - before;
  if (!bulk.bytes || bulk.broken) return NAN;  // Also an upload through umockdev, which nobody counts.
  *cpu = used / ((double)bulk.bytes / 1e9 * (bulk.seconds + 0.1) / bulk.seconds);
  return bulk.megabytes_per_second;
}

static struct latency trips_beside(struct forwarder *forwarder, enum direction direction) {
  pid_t bulk = fork();
  if (bulk == 0) {
    static char chunk[1 << 18];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = dial(forwarder->port, direction == DOWN ? PHONE_SOURCE : PHONE_DISCARD);
    if (direction == DOWN)
      while (recv(fd, NULL, sizeof chunk, MSG_TRUNC) > 0) {}
    else
      while (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) > 0) {}
    _exit(0);
  }
  usleep(200000);
  struct latency latency = load_round_trips(forwarder->port, seconds, 1 << 20);
  kill(bulk, SIGKILL);
  waitpid(bulk, NULL, 0);
  usleep(50000);
  return latency;
}

static void measure(enum peer peer, int speed, int round) {
  struct forwarder forwarder;
  if (start(&forwarder, peer, speed, 1, 0)) return;
  double(*row)[MAXIMUM_ROUNDS] = values[peer][speed];
  row[DOWNLOAD][round] = bulk_with_cpu(&forwarder, DOWN, &row[CPU_DOWNLOAD][round]);
  row[UPLOAD][round] = bulk_with_cpu(&forwarder, UP, &row[CPU_UPLOAD][round]);
  if (only_bulk) return forwarder_stop(&forwarder);
  struct latency alone = load_round_trips(forwarder.port, seconds, 1 << 20);
  struct latency down = trips_beside(&forwarder, DOWN), up = trips_beside(&forwarder, UP);
  if (!alone.count || !down.count || !up.count) failures[peer]++;
  row[BESIDE_DOWN_P50][round] = down.count ? down.p50 : NAN;
  row[BESIDE_DOWN_P99][round] = down.count ? down.p99 : NAN;
  row[BESIDE_UP_P50][round] = up.count ? up.p50 : NAN;
  row[BESIDE_UP_P99][round] = up.count ? up.p99 : NAN;
  if (speeds[speed].rate > 0) {
    double packet = PACKET / speeds[speed].rate;
    row[DELAY_DOWN][round] = (row[BESIDE_DOWN_P50][round] - alone.p50) / packet;
    row[DELAY_UP][round] = (row[BESIDE_UP_P50][round] - alone.p50) / packet;
  }
  forwarder_stop(&forwarder);
}

// On one CPU: to wake a process on another one takes longer than all else here, now more and now less.
static void measure_trips(enum peer peer, int speed, int round) {
  struct forwarder forwarder;
  pin(0, 1);
  if (!start(&forwarder, peer, speed, 1, 1)) {
    struct latency latency = load_round_trips(forwarder.port, seconds, 1 << 20);
    if (latency.count) {
      values[peer][speed][TRIP_P50][round] = latency.p50;
      values[peer][speed][TRIP_P99][round] = latency.p99;
    }
    forwarder_stop(&forwarder);
  }
  pin(0, 0);
}

static void measure_devices(int many, int round) {
  struct forwarder forwarder;
  if (start(&forwarder, TUNNELD, 1, many ? MANY_DEVICES : 1, 0)) return;
  // The others are attached by then.
  usleep(500000);
  (void)bulk_with_cpu(&forwarder, DOWN, &devices_cpu[many][round]);
  devices_trip[many][round] = load_round_trips(forwarder.port, seconds, 1 << 20).p50;
  forwarder_stop(&forwarder);
}

// The table

struct spread {
  double least, median, most;
};

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static struct spread spread(const double *numbers) {
  double known[MAXIMUM_ROUNDS];
  int count = 0;
  for (int i = 0; i < rounds; i++)
    if (!isnan(numbers[i])) known[count++] = numbers[i];
  if (!count) return (struct spread){NAN, NAN, NAN};
  qsort(known, (size_t)count, sizeof *known, compare);
  double median = count % 2 ? known[count / 2] : (known[count / 2 - 1] + known[count / 2]) / 2;
  return (struct spread){known[0], median, known[count - 1]};
}

// Round by round, so that what disturbs a round disturbs both.
static struct spread ratio(const double *numbers, const double *base) {
  double ratios[MAXIMUM_ROUNDS];
  for (int i = 0; i < rounds; i++) ratios[i] = base[i] > 0 ? numbers[i] / base[i] : NAN;
  return spread(ratios);
}

static void print_number(FILE *out, double value, int decimals) {
  if (isnan(value)) fprintf(out, " - |");
  else fprintf(out, " %.*f |", decimals, value);
}

static void print_wanted(FILE *out, double wanted, const char *name) {
  if (!isnan(wanted)) fprintf(out, " %s %g of %s", wanted > 0 ? ">=" : "<=", fabs(wanted), name);
}

// Whether a ratio is as wanted: 1, 0, or -1 when nothing is wanted or known.
static int holds(double wanted, double found) {
  if (isnan(wanted) || isnan(found)) return -1;
  return wanted > 0 ? found >= wanted : found <= -wanted;
}

static void print_row(FILE *out, int speed, int figure) {
  const double *own = values[TUNNELD][speed][figure];
  double median = spread(own).median;
  if (isnan(median)) return;
  fprintf(out, "| %s |", figures[figure].name);
  // Where the bus is the limit there is no room for five times what usbmuxd has.
  double to_usbmuxd = speeds[speed].rate > 0 ? NAN : figures[figure].to_usbmuxd;
  print_wanted(out, figures[figure].to_loop, "the loop");
  if (!isnan(to_usbmuxd)) fprintf(out, ",");
  print_wanted(out, to_usbmuxd, "usbmuxd");
  if (!isnan(figures[figure].most)) fprintf(out, " <= %g", figures[figure].most);
  fprintf(out, " |");
  print_number(out, median, figures[figure].decimals);
  int fine = 1, known = 0;
  for (int peer = LOOP; peer < PEERS; peer++) {
    const double *other = values[peer][speed][figure];
    struct spread ratios = ratio(own, other);
    print_number(out, spread(other).median, figures[figure].decimals);
    if (figure == DELAY_DOWN || figure == DELAY_UP) ratios.median = NAN;
    if (isnan(ratios.median)) fprintf(out, " - |");
    else fprintf(out, " %.2f (%.2f-%.2f) |", ratios.median, ratios.least, ratios.most);
    int held = holds(peer == LOOP ? figures[figure].to_loop : to_usbmuxd, ratios.median);
    if (held >= 0) known = 1, fine &= held;
  }
  if (!isnan(figures[figure].most)) known = 1, fine &= median <= figures[figure].most;
  fprintf(out, "%s |\n", !known ? "" : fine ? " yes" : " **no**");
}

static void print_table(FILE *out) {
  for (int speed = 0; speed < SPEEDS; speed++) {
    if (!strstr(speeds[speed].name, only_speed)) continue;
    fprintf(out, "| bus: %s (medians of %d rounds) | wanted | %s |", speeds[speed].name, rounds, names[TUNNELD]);
    fprintf(out, " %s | ratio to it | %s | ratio to it | holds |\n", names[LOOP], names[USBMUXD]);
    fprintf(out, "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int figure = 0; figure < FIGURES; figure++) print_row(out, speed, figure);
    fprintf(out, "\n");
  }
  struct spread cpu = ratio(devices_cpu[1], devices_cpu[0]), trip = ratio(devices_trip[1], devices_trip[0]);
  if (!isnan(cpu.median))
    fprintf(out,
            "With %d devices attached, by one: CPU time for a downloaded GB %.2f (%.2f-%.2f) times, round trip %.2f "
            "(%.2f-%.2f) times.\n",
            MANY_DEVICES, cpu.median, cpu.least, cpu.most, trip.median, trip.least, trip.most);
  for (int peer = 0; peer < PEERS; peer++) {
    if (!programs[peer]) fprintf(out, "%s: missing, so not measured.\n", names[peer]);
    else if (failures[peer]) fprintf(out, "%s: %d connections or starts failed.\n", names[peer], failures[peer]);
  }
}

static int usage(void) {
  fputs("usage: usb-bench [--rounds N] [--seconds S] [--speed TEXT] [--only TEXT] [--bulk 1] [--write FILE] DIRECTORY EMULATOR TUNNELD\n\n"
        "DIRECTORY holds usb-rings.so and usb-loop. Prints tables, and puts them between the marks of FILE as well.\n"
        "--speed takes the buses, and --only the forwarders, whose names hold TEXT; with --bulk 1\n"
        "there are no round trips.\n",
        stderr);
  return 2;
}

int main(int argc, char **argv) {
  static char paths[3][1024];
  signal(SIGPIPE, SIG_IGN);
  const char *document = NULL;
  int i = 1;
  for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
    if (!strcmp(argv[i], "--rounds")) rounds = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
    else if (!strcmp(argv[i], "--speed")) only_speed = argv[i + 1];
    else if (!strcmp(argv[i], "--bulk")) only_bulk = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--only")) only_peer = argv[i + 1];
    else if (!strcmp(argv[i], "--write")) document = argv[i + 1];
    else return usage();
  }
  if (argc - i != 3 || rounds < 1 || rounds > MAXIMUM_ROUNDS) return usage();
  snprintf(paths[0], sizeof paths[0], "%s/usb-rings.so", argv[i]);
  snprintf(paths[1], sizeof paths[1], "%s/usb-loop", argv[i]);
  snprintf(paths[2], sizeof paths[2], "Benchmarks/usb-forwarder");
  preload = paths[0], programs[LOOP] = paths[1], script = paths[2];
  emulator = argv[i + 1];
  programs[TUNNELD] = argv[i + 2];
  programs[USBMUXD] = !access("/usr/sbin/usbmuxd", X_OK) && forwarder_exists("iproxy") ? "/usr/sbin/usbmuxd" : NULL;
  if (!programs[USBMUXD]) fputs("usb-bench: usbmuxd or iproxy is missing, so it is left out\n", stderr);
  for (int many = 0; many < 2; many++)
    for (int round = 0; round < MAXIMUM_ROUNDS; round++) devices_cpu[many][round] = devices_trip[many][round] = NAN;
  for (int peer = 0; peer < PEERS; peer++)
    for (int speed = 0; speed < SPEEDS; speed++)
      for (int figure = 0; figure < FIGURES; figure++)
        for (int round = 0; round < MAXIMUM_ROUNDS; round++) values[peer][speed][figure][round] = NAN;
  for (int round = 0; round < rounds; round++) {
    fprintf(stderr, "round %d of %d\n", round + 1, rounds);
    for (int speed = 0; speed < SPEEDS; speed++) {
      if (!strstr(speeds[speed].name, only_speed)) continue;
      for (int peer = 0; peer < PEERS; peer++)
        if (programs[peer] && strstr(names[peer], only_peer)) {
          measure((enum peer)peer, speed, round);
          if (!only_bulk) measure_trips((enum peer)peer, speed, round);
        }
    }
    if (!*only_speed && !*only_peer && !only_bulk)
      for (int many = 0; many < 2; many++) measure_devices(many, round);
  }
  print_table(stdout);
  return document ? document_fill(document, "bench-usb", print_table) : 0;
}
