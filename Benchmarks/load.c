#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024, MESSAGE = 64, MAXIMUM_TRIPS = 1 << 20, BATCH = 128 };

static char chunk[CHUNK];

double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

// A socket on its way to the port. Ports that wait out their time are plenty at thousands of connections per
// second, so the source address changes from one to the next.
static int start_dial(int port, int flags) {
  static unsigned number;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) return -1;
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001 + number++ % 200)};
  bind(fd, (void *)&source, sizeof source);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (void *)&address, sizeof address) && errno != EINPROGRESS) {
    close(fd);
    return -1;
  }
  return fd;
}

int dial(int port, char service) {
  int fd = start_dial(port, 0);
  if (fd < 0) return -1;
  struct timeval second = {.tv_sec = 1};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  if (send(fd, &service, 1, MSG_NOSIGNAL) == 1) return fd;
  close(fd);
  return -1;
}

// Bulk

// The reader's own copy is left out (MSG_TRUNC), so that it is not what is measured.
static ssize_t move(int fd, enum direction direction) {
  return direction == DOWN ? recv(fd, NULL, 1 << 20, MSG_DONTWAIT | MSG_TRUNC)
                           : send(fd, chunk, CHUNK, MSG_DONTWAIT | MSG_NOSIGNAL);
}

struct bulk load_bulk(int port, enum direction direction, int streams, double seconds,
                      const struct phone_counters *counters) {
  struct bulk result = {0};
  int set = epoll_create1(EPOLL_CLOEXEC);
  int *fds = calloc((size_t)streams, sizeof *fds);
  uint64_t *bytes = calloc((size_t)streams, sizeof *bytes);
  for (int i = 0; i < streams; i++) {
    fds[i] = dial(port, direction == DOWN ? PHONE_SOURCE : PHONE_DISCARD);
    if (fds[i] < 0) result.broken++;
    struct epoll_event event = {.events = direction == DOWN ? EPOLLIN : EPOLLOUT, .data.u32 = (uint32_t)i};
    if (fds[i] >= 0) epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event);
  }
  double start = now_us() + 100e3, end = start + seconds * 1e6, now;
  uint64_t received = 0;
  int started = 0;
  while ((now = now_us()) < end) {
    if (!started && now >= start) {
      started = 1;
      start = now;
      memset(bytes, 0, (size_t)streams * sizeof *bytes);
      received = counters->discarded;
    }
    struct epoll_event events[BATCH];
    int count = epoll_wait(set, events, BATCH, 10);
    for (int i = 0; i < count; i++) {
      uint32_t stream = events[i].data.u32;
      ssize_t moved = move(fds[stream], direction);
      if (moved > 0) {
        bytes[stream] += (uint64_t)moved;
      } else if (moved == 0 || errno != EAGAIN) {
        epoll_ctl(set, EPOLL_CTL_DEL, fds[stream], NULL);
        result.broken++;
      }
    }
  }
  uint64_t least = UINT64_MAX, most = 0;
  for (int i = 0; i < streams; i++) {
    result.bytes += bytes[i];
    if (bytes[i] < least) least = bytes[i];
    if (bytes[i] > most) most = bytes[i];
  }
  // What has left the sender may be in any buffer on the way; what counts is what has arrived.
  if (direction == UP) result.bytes = counters->discarded - received;
  result.seconds = (now - start) / 1e6;
  result.megabytes_per_second = (double)result.bytes / (now - start);
  result.fairness = most ? (double)least / (double)most : 0;
  for (int i = 0; i < streams; i++)
    if (fds[i] >= 0) close(fds[i]);
  close(set);
  free(fds);
  free(bytes);
  return result;
}

int load_amount(int port, enum direction direction, uint64_t bytes, const struct phone_counters *counters) {
  int fd = dial(port, direction == DOWN ? PHONE_SOURCE : PHONE_DISCARD);
  if (fd < 0) return -1;
  struct timeval minute = {.tv_sec = 60};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof minute);
  uint64_t wanted = (counters ? counters->discarded : 0) + bytes, left = bytes;
  while (left) {
    size_t count = left < CHUNK ? (size_t)left : CHUNK;
    ssize_t moved = direction == DOWN ? recv(fd, chunk, count, 0) : send(fd, chunk, count, MSG_NOSIGNAL);
    if (moved <= 0) break;
    left -= (uint64_t)moved;
  }
  for (int i = 0; counters && direction == UP && !left && counters->discarded < wanted && i < 60000; i++) usleep(1000);
  close(fd);
  return left ? -1 : 0;
}

// Round trips

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

// Reads one whole message; 0 when the stream ends or stalls.
static int receive_message(int fd) {
  char message[MESSAGE];
  for (size_t got = 0; got < MESSAGE;) {
    ssize_t count = recv(fd, message + got, MESSAGE - got, 0);
    if (count <= 0) return 0;
    got += (size_t)count;
  }
  return 1;
}

static int round_trip(int fd) { return send(fd, chunk, MESSAGE, MSG_NOSIGNAL) == MESSAGE && receive_message(fd); }

struct latency load_round_trips(int port, double seconds, int limit) {
  struct latency result = {0};
  int fd = dial(port, PHONE_ECHO);
  double *times = malloc(MAXIMUM_TRIPS * sizeof *times);
  for (int i = 0; fd >= 0 && i < 50 && i < limit; i++)
    if (!round_trip(fd)) break;
  double now = now_us(), end = now + seconds * 1e6;
  while (fd >= 0 && now < end && result.count < MAXIMUM_TRIPS && result.count < limit) {
    if (!round_trip(fd)) break;
    double before = now;
    now = now_us();
    times[result.count++] = now - before;
  }
  qsort(times, (size_t)result.count, sizeof *times, compare);
  if (result.count) {
    result.p50 = times[result.count / 2];
    result.p99 = times[(int)(result.count * 0.99)];
  }
  free(times);
  if (fd >= 0) close(fd);
  return result;
}

// Connections

struct visit {
  int fd;
  int received;
  double since;
};

static int begin_visit(int set, struct visit *visit, uint32_t index, int port) {
  visit->fd = start_dial(port, SOCK_NONBLOCK);
  visit->received = -1;
  visit->since = now_us();
  struct epoll_event event = {.events = EPOLLOUT, .data.u32 = index};
  return visit->fd >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, visit->fd, &event);
}

// 1: all of its message is back; 0: it goes on; -1: it has failed.
static int continue_visit(int set, struct visit *visit, uint32_t index) {
  char message[1 + MESSAGE] = {PHONE_ECHO};
  if (visit->received < 0) {
    if (send(visit->fd, message, sizeof message, MSG_NOSIGNAL) != sizeof message) return -1;
    visit->received = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    return epoll_ctl(set, EPOLL_CTL_MOD, visit->fd, &event) ? -1 : 0;
  }
  ssize_t count = recv(visit->fd, message, sizeof message, 0);
  if (count <= 0) return count < 0 && errno == EAGAIN ? 0 : -1;
  visit->received += (int)count;
  return visit->received >= MESSAGE;
}

struct churn load_connections(int port, int at_once, double seconds, int limit) {
  struct churn result = {0};
  int set = epoll_create1(EPOLL_CLOEXEC);
  struct visit *visits = calloc((size_t)at_once, sizeof *visits);
  double start = now_us(), end = start + seconds * 1e6, now;
  int begun = 0, open = 0;
  for (int i = 0; i < at_once; i++) visits[i].fd = -1;
  while ((now = now_us()) < end && (open || begun < limit)) {
    for (int i = 0; i < at_once; i++) {
      struct visit *visit = &visits[i];
      if (visit->fd >= 0 && now - visit->since > 1e6) {
        result.stalled++;
        close(visit->fd);
        visit->fd = -1;
        open--;
      }
      if (visit->fd < 0 && begun < limit && begin_visit(set, visit, (uint32_t)i, port)) begun++, open++;
    }
    struct epoll_event events[BATCH];
    int count = epoll_wait(set, events, BATCH, 10);
    for (int i = 0; i < count; i++) {
      struct visit *visit = &visits[events[i].data.u32];
      int done = continue_visit(set, visit, events[i].data.u32);
      if (!done) continue;
      if (done > 0) result.count++;
      else result.stalled++;
      close(visit->fd);
      visit->fd = -1;
      open--;
    }
  }
  result.per_second = result.count / ((now - start) / 1e6);
  for (int i = 0; i < at_once; i++)
    if (visits[i].fd >= 0) close(visits[i].fd);
  close(set);
  free(visits);
  return result;
}

int load_idle(int port, int count, int *descriptors) {
  int working = 0;
  for (int i = 0; i < count; i++) {
    descriptors[i] = dial(port, PHONE_ECHO);
    if (descriptors[i] >= 0 && round_trip(descriptors[i])) working++;
    // A peer that has died is not asked a thousand times.
    else if (i - working > 5) {
      for (int j = i + 1; j < count; j++) descriptors[j] = -1;
      break;
    }
  }
  return working;
}
