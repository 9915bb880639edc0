// A usbmuxd socket with one phone behind it, for benchmarks: no more of the protocol than a forwarder needs, and as
// little work per byte as possible.
#pragma once
#include <stdint.h>

// The phone's only port. The first byte that a client sends picks the service.
enum { PHONE_PORT = 7000 };
#define PHONE_ECHO 'e'
#define PHONE_DISCARD 'd'
#define PHONE_SOURCE 's'

struct phone_counters {
  // Bytes that reached the discard service.
  volatile uint64_t discarded;
};

// Serves at `path` until the process ends. `counters` may be shared with another process.
void phone_serve(const char *path, struct phone_counters *counters);
