// What clients of a forwarder do, and how it went.
#pragma once
#include "phone.h"

#include <stdint.h>

enum direction { DOWN, UP };

struct bulk {
  double megabytes_per_second;
  // Slowest by fastest stream (downloads only).
  double fairness;
  // Streams that could not be opened, or ended.
  int broken;
  double seconds;
  uint64_t bytes;
};

struct latency {
  // Microseconds.
  double p50, p99;
  int count;
};

struct churn {
  double per_second;
  int count;
  // Connections that failed or took longer than a second.
  int stalled;
};

// Microseconds of a clock that only goes forward.
double now_us(void);

// A blocking connection to 127.0.0.1, its service chosen; -1 when there is none within a second.
int dial(int port, char service);

// `streams` at once for `seconds`, after a short start.
struct bulk load_bulk(int port, enum direction direction, int streams, double seconds,
                      const struct phone_counters *counters);
// Moves exactly `bytes` through one stream; -1 when it breaks. Without counters an upload is done when it is sent.
int load_amount(int port, enum direction direction, uint64_t bytes, const struct phone_counters *counters);
// 64 bytes there and back, one after the other, for `seconds` or `limit` times.
struct latency load_round_trips(int port, double seconds, int limit);
// Connections that exchange 64 bytes and close, `at_once` at a time, for `seconds` or `limit` times.
struct churn load_connections(int port, int at_once, double seconds, int limit);
// Opens `count` connections, each used once, and leaves them open in `descriptors`; returns how many work.
int load_idle(int port, int count, int *descriptors);
