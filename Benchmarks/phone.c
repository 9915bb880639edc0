#define _GNU_SOURCE
#include "phone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024, REQUEST = 4096, HEADER = 16, BATCH = 256 };
// usbmuxd's own.
enum { SOCKET_BUFFER = 128 * 1024 };

enum state { ASKING, LISTENING, CONNECTED, ECHOING, DISCARDING, SENDING };

struct peer {
  int fd;
  enum state state;
  // A request that is not complete, or bytes that could not be echoed yet.
  char *held;
  int start, count;
};

static char chunk[CHUNK];
static int set;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void watch(struct peer *peer, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = peer};
  if (epoll_ctl(set, EPOLL_CTL_MOD, peer->fd, &event)) fail("epoll_ctl");
}

static void end(struct peer *peer) {
  close(peer->fd);
  free(peer->held);
  free(peer);
}

// Requests

static void put32(unsigned char *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t get32(const char *at) {
  const unsigned char *bytes = (const void *)at;
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void answer(struct peer *peer, uint32_t tag, const char *content) {
  char frame[REQUEST];
  int body = snprintf(frame + HEADER, sizeof frame - HEADER,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" "
                      "\"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n"
                      "<plist version=\"1.0\">\n<dict>\n%s</dict>\n</plist>\n",
                      content);
  put32((void *)frame, (uint32_t)(HEADER + body));
  put32((void *)(frame + 4), 1);
  put32((void *)(frame + 8), 8);
  put32((void *)(frame + 12), tag);
  // An answer fits into an empty socket buffer.
  if (send(peer->fd, frame, (size_t)(HEADER + body), MSG_NOSIGNAL) < 0 && errno != EPIPE) perror("send");
}

#define RESULT(number) \
  "\t<key>MessageType</key>\n\t<string>Result</string>\n\t<key>Number</key>\n\t<integer>" #number "</integer>\n"
#define ATTACHED                                                                             \
  "\t<key>DeviceID</key>\n\t<integer>1</integer>\n"                                          \
  "\t<key>MessageType</key>\n\t<string>Attached</string>\n"                                  \
  "\t<key>Properties</key>\n\t<dict>\n"                                                      \
  "\t\t<key>ConnectionSpeed</key>\n\t\t<integer>480000000</integer>\n"                       \
  "\t\t<key>ConnectionType</key>\n\t\t<string>USB</string>\n"                                \
  "\t\t<key>DeviceID</key>\n\t\t<integer>1</integer>\n"                                      \
  "\t\t<key>LocationID</key>\n\t\t<integer>65537</integer>\n"                                \
  "\t\t<key>ProductID</key>\n\t\t<integer>4776</integer>\n"                                  \
  "\t\t<key>SerialNumber</key>\n\t\t<string>00008110000000C0FFEE0001</string>\n\t</dict>\n"

static void perform(struct peer *peer, uint32_t tag, const char *body) {
  if (strstr(body, "<string>Connect</string>")) {
    const char *port = strstr(body, "<key>PortNumber</key>");
    if (port) port = strstr(port, "<integer>");
    uint32_t number = port ? (uint32_t)atoi(port + strlen("<integer>")) : 0;
    // Network byte order, read as a little-endian number.
    if ((number >> 8 | (number & 255) << 8) != PHONE_PORT) return answer(peer, tag, RESULT(3));
    answer(peer, tag, RESULT(0));
    peer->state = CONNECTED;
  } else if (strstr(body, "<string>Listen</string>")) {
    answer(peer, tag, RESULT(0));
    answer(peer, 0, ATTACHED);
    peer->state = LISTENING;
  } else if (strstr(body, "<string>ListDevices</string>")) {
    answer(peer, tag, "<key>DeviceList</key>\n<array>\n<dict>\n" ATTACHED "</dict>\n</array>\n");
  } else {
    answer(peer, tag, RESULT(1));
  }
}

// Reads no byte beyond the frame, since the stream begins there.
static int ask(struct peer *peer) {
  if (!peer->held) peer->held = malloc(REQUEST);
  if (!peer->held) fail("malloc");
  int length = peer->count < HEADER ? HEADER : (int)get32(peer->held);
  if (length < HEADER || length >= REQUEST) return -1;
  ssize_t got = recv(peer->fd, peer->held + peer->count, (size_t)(length - peer->count), MSG_DONTWAIT);
  if (got <= 0) return got < 0 && errno == EAGAIN ? 0 : -1;
  peer->count += (int)got;
  if (peer->count < HEADER || peer->count < (int)get32(peer->held)) return 1;
  peer->held[peer->count] = 0;
  peer->count = 0;
  perform(peer, get32(peer->held + 12), peer->held + HEADER);
  if (peer->state == CONNECTED) {
    free(peer->held);
    peer->held = NULL;
  }
  return 1;
}

// Services

static int begin(struct peer *peer) {
  char service;
  ssize_t got = recv(peer->fd, &service, 1, MSG_DONTWAIT);
  if (got <= 0) return got < 0 && errno == EAGAIN ? 0 : -1;
  switch (service) {
  case PHONE_ECHO: peer->state = ECHOING; return 1;
  case PHONE_DISCARD: peer->state = DISCARDING; return 1;
  case PHONE_SOURCE:
    peer->state = SENDING;
    watch(peer, EPOLLOUT | EPOLLRDHUP);
    return 0;
  default: return -1;
  }
}

static int echo(struct peer *peer) {
  if (!peer->held) {
    ssize_t got = recv(peer->fd, chunk, 65536, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && errno == EAGAIN ? 0 : -1;
    ssize_t sent = send(peer->fd, chunk, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == got) return 0;
    if (sent < 0 && errno != EAGAIN) return -1;
    if (sent < 0) sent = 0;
    peer->start = 0;
    peer->count = (int)(got - sent);
    peer->held = malloc((size_t)peer->count);
    if (!peer->held) fail("malloc");
    memcpy(peer->held, chunk + sent, (size_t)peer->count);
    watch(peer, EPOLLOUT);
    return 0;
  }
  ssize_t sent = send(peer->fd, peer->held + peer->start, (size_t)(peer->count - peer->start), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN ? 0 : -1;
  peer->start += (int)sent;
  if (peer->start < peer->count) return 0;
  free(peer->held);
  peer->held = NULL;
  watch(peer, EPOLLIN);
  return 0;
}

// Pages go to /dev/null as they are: a sink that copies would be what uploads are measured by.
static int discard(struct peer *peer, struct phone_counters *counters) {
  static int ends[2] = {-1, -1}, null;
  if (ends[0] < 0) {
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK)) fail("a pipe to /dev/null");
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  }
  ssize_t got = splice(peer->fd, NULL, ends[1], NULL, 1 << 20, SPLICE_F_NONBLOCK);
  if (got <= 0) return got < 0 && errno == EAGAIN ? 0 : -1;
  for (ssize_t left = got, gone; left > 0; left -= gone)
    if ((gone = splice(ends[0], NULL, null, NULL, (size_t)left, 0)) <= 0) fail("splice");
  counters->discarded += (uint64_t)got;
  return 0;
}

static int produce(struct peer *peer) {
  ssize_t sent = send(peer->fd, chunk, CHUNK, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno != EAGAIN ? -1 : 0;
}

// Returns 1 when there may be more to do at once, -1 when the peer is gone.
static int serve(struct peer *peer, struct phone_counters *counters) {
  switch (peer->state) {
  case ASKING: return ask(peer);
  case LISTENING: return recv(peer->fd, chunk, CHUNK, MSG_DONTWAIT) == 0 ? -1 : 0;
  case CONNECTED: return begin(peer);
  case ECHOING: return echo(peer);
  case DISCARDING: return discard(peer, counters);
  case SENDING: return produce(peer);
  }
  return -1;
}

void phone_serve(const char *path, struct phone_counters *counters) {
  struct rlimit limit;
  if (!getrlimit(RLIMIT_NOFILE, &limit)) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  for (int i = 0; i < CHUNK; i++) chunk[i] = (char)i;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) fail("the socket's path is too long");
  strcpy(address.sun_path, path);
  unlink(path);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) fail(path);
  set = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    struct epoll_event events[BATCH];
    int count = epoll_wait(set, events, BATCH, -1);
    for (int i = 0; i < count; i++) {
      struct peer *peer = events[i].data.ptr;
      if (!peer) {
        int fd;
        while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
          peer = calloc(1, sizeof *peer);
          if (!peer) fail("calloc");
          peer->fd = fd;
          int size = SOCKET_BUFFER;
          setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
          setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
          struct epoll_event first = {.events = EPOLLIN, .data.ptr = peer};
          epoll_ctl(set, EPOLL_CTL_ADD, fd, &first);
        }
        continue;
      }
      int more;
      do more = serve(peer, counters);
      while (more > 0);
      if (more < 0) end(peer);
    }
  }
}
