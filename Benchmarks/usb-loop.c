// The least that moves bytes between a phone's mux interface and a socket: one loop around libusb's transfers, with
// just enough of the device protocol. What tunneld is held against over emulated USB.
//
// It trusts the phone, blocks on clients, and looks for nothing that goes wrong: no relay that could be used.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libusb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  MUX = 16, SEGMENT = 20, HEADERS = MUX + SEGMENT, PACKET = 0x7ffc, SYN = 2, RST = 4, ACK = 16,
  SMALL_PACKETS = 64, SESSIONS = 64, TRIPS = 1 << 20, MESSAGE = 64,
};

// In the events of clients' sockets, with a session's index.
static const uint64_t CLIENT = 1ull << 63;

static int reads = 8, read_size = 16384, writes = 4;
static uint32_t window = 512 * 1024, threshold = 128 * 1024;
static libusb_device_handle *handle;
static int input, output, packet_size, set;
static uint16_t transmitted, received;
static int is_up;

struct session {
  // A client's socket, or -1: what is measured in here.
  int fd;
  uint16_t host_port, device_port;
  uint32_t sent, got, acknowledged, edge;
  int is_used, is_open, is_watched;
};
static struct session sessions[SESSIONS];

// The payload that is coming in.
static struct session *target;
static uint32_t left;

struct packet {
  struct libusb_transfer *transfer;
  struct packet *next;
  int is_small;
  unsigned char bytes[];
};
static struct packet *free_packets, *free_small;

// Without a socket: what is moved, and how it went.
static char mode;
static int seconds, service;
static uint64_t moved;
static char *nothing[1], **forwards = nothing;
static double *times, sent_at, began;
static int trips, answered;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void fail(const char *what) {
  fprintf(stderr, "usb-loop: %s\n", what);
  exit(1);
}

static void put16(unsigned char *at, uint16_t value) { at[0] = (unsigned char)(value >> 8), at[1] = (unsigned char)value; }
static void put32(unsigned char *at, uint32_t value) { put16(at, (uint16_t)(value >> 16)), put16(at + 2, (uint16_t)value); }
static uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static uint32_t get32(const unsigned char *at) { return (uint32_t)get16(at) << 16 | get16(at + 2); }

// Sending

static void send_more(void);

static void LIBUSB_CALL packet_sent(struct libusb_transfer *transfer) {
  struct packet *packet = transfer->user_data;
  if (transfer->status != LIBUSB_TRANSFER_COMPLETED) fail("a packet was not sent");
  struct packet **list = packet->is_small ? &free_small : &free_packets;
  packet->next = *list;
  *list = packet;
}

static struct packet *take(struct packet **list) {
  struct packet *packet = *list;
  if (packet) *list = packet->next;
  return packet;
}

static void submit(struct packet *packet, int length) {
  libusb_fill_bulk_transfer(packet->transfer, handle, (unsigned char)output, packet->bytes, length, packet_sent, packet, 0);
  packet->transfer->flags = length % packet_size ? 0 : LIBUSB_TRANSFER_ADD_ZERO_PACKET;
  if (libusb_submit_transfer(packet->transfer)) fail("a packet cannot be sent");
}

static void mux_header(unsigned char *at, uint32_t protocol, int length) {
  put32(at, protocol);
  put32(at + 4, (uint32_t)length);
  put32(at + 8, 0xfeedface);
  put16(at + 12, transmitted++);
  put16(at + 14, received);
}

static void send_segment(struct session *session, struct packet *packet, int flags, int count) {
  unsigned char *at = packet->bytes;
  mux_header(at, 6, HEADERS + count);
  put16(at + 16, session->host_port);
  put16(at + 18, session->device_port);
  put32(at + 20, session->sent);
  put32(at + 24, flags == SYN ? 0 : session->got);
  at[28] = 5 << 4;
  at[29] = (unsigned char)flags;
  put16(at + 30, (uint16_t)(window >> 8));
  put32(at + 32, 0);
  session->sent += (uint32_t)count + (flags == SYN);
  session->acknowledged = session->got;
  submit(packet, HEADERS + count);
}

static void send_small(struct session *session, int flags) {
  struct packet *packet = take(&free_small);
  if (packet) send_segment(session, packet, flags, 0);
}

static void open_session(int fd, int port) {
  for (int i = 0; i < SESSIONS; i++) {
    struct session *session = &sessions[i];
    if (session->is_used) continue;
    static uint16_t last = 20000;
    *session = (struct session){.fd = fd, .host_port = ++last, .device_port = (uint16_t)port, .is_used = 1};
    send_small(session, SYN);
    return;
  }
  close(fd);
}

static void close_session(struct session *session, int tells) {
  if (tells) send_small(session, RST);
  if (session->fd >= 0) close(session->fd);
  if (target == session) target = NULL;
  session->is_used = session->is_open = 0;
}

static void watch(struct session *session, int is_watched) {
  if (session->fd < 0 || session->is_watched == is_watched) return;
  session->is_watched = is_watched;
  struct epoll_event event = {.events = is_watched ? EPOLLIN : 0, .data.u64 = CLIENT + (uint64_t)(session - sessions)};
  epoll_ctl(set, EPOLL_CTL_MOD, session->fd, &event);
}

// One packet of what the session has; 0 when there is nothing or no room.
static int send_data(struct session *session) {
  int32_t room = (int32_t)(session->edge - session->sent);
  if (room <= 0 || !free_packets) return watch(session, 0), 0;
  int limit = room < PACKET - HEADERS ? room : PACKET - HEADERS;
  struct packet *packet = take(&free_packets);
  ssize_t count = limit;
  if (session->fd >= 0) count = recv(session->fd, packet->bytes + HEADERS, (size_t)limit, MSG_DONTWAIT);
  if (count > 0) {
    send_segment(session, packet, ACK, (int)count);
    return 1;
  }
  packet->next = free_packets;
  free_packets = packet;
  if (count == 0 || errno != EAGAIN) close_session(session, 1);
  else watch(session, 1);
  return 0;
}

static void send_trip(struct session *session) {
  struct packet *packet = take(&free_packets);
  if (!packet) return;
  sent_at = now_us();
  send_segment(session, packet, ACK, MESSAGE);
}

static void send_more(void) {
  for (int some = 1; some && free_packets;) {
    some = 0;
    for (int i = 0; i < SESSIONS && free_packets; i++) {
      struct session *session = &sessions[i];
      if (!session->is_open || (session->fd >= 0 && session->is_watched) || (session->fd < 0 && mode != 'u')) continue;
      if (send_data(session)) some = 1;
    }
  }
}

// Clients

static int listen_at(int port, int device_port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (void *)&address, sizeof address) || listen(fd, 64)) fail("cannot listen");
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)device_port << 32 | (uint64_t)fd};
  epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
  return fd;
}

static void accept_client(int listener, int device_port) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1, size = 262144;
  if (fd < 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  open_session(fd, device_port);
}

// Receiving

static void deliver(struct session *session, const unsigned char *bytes, int count) {
  if (session->fd >= 0) {
    for (int done = 0; done < count;) {
      ssize_t sent = send(session->fd, bytes + done, (size_t)(count - done), MSG_NOSIGNAL);
      if (sent <= 0) return close_session(session, 1);
      done += (int)sent;
    }
  } else if (mode == 't') {
    answered += count;
    if (answered == MESSAGE) {
      answered = 0;
      if (trips < TRIPS) times[trips++] = now_us() - sent_at;
      send_trip(session);
    }
  }
  moved += (uint64_t)count;
  if (session->got - session->acknowledged >= threshold) send_small(session, ACK);
}

static struct session *find(uint16_t host_port, uint16_t device_port) {
  for (int i = 0; i < SESSIONS; i++)
    if (sessions[i].is_used && sessions[i].host_port == host_port && sessions[i].device_port == device_port) return &sessions[i];
  return NULL;
}

static void begin_packet(const unsigned char *bytes, int count) {
  if (count < 8) fail("a short packet");
  uint32_t protocol = get32(bytes), length = get32(bytes + 4);
  if (protocol == 0) {
    if (is_up++) return;
    struct packet *packet = take(&free_small);
    received = 0xffff;
    mux_header(packet->bytes, 2, MUX + 1);
    packet->bytes[MUX] = 7;
    submit(packet, MUX + 1);
    if (mode != 'r') open_session(-1, service);
    // Clients are for later: there is no session before the link is up.
    for (; *forwards; forwards++) {
      char *colon = strchr(*forwards, ':');
      if (colon) listen_at(atoi(*forwards), atoi(colon + 1));
    }
    return;
  }
  if (count < MUX) fail("a short packet");
  received = get16(bytes + 12);
  left = length - (uint32_t)count;
  target = NULL;
  if (protocol != 6 || count < HEADERS) return;
  struct session *session = find(get16(bytes + 18), get16(bytes + 16));
  if (!session) return;
  int flags = bytes[29];
  if (flags & RST) return close_session(session, 0);
  session->edge = get32(bytes + 24) + ((uint32_t)get16(bytes + 30) << 8);
  if (flags & SYN) {
    session->got = get32(bytes + 20) + 1;
    session->is_open = 1;
    send_small(session, ACK);
    began = now_us();
    moved = 0;
    if (session->fd >= 0) {
      struct epoll_event event = {.events = EPOLLIN, .data.u64 = CLIENT + (uint64_t)(session - sessions)};
      epoll_ctl(set, EPOLL_CTL_ADD, session->fd, &event);
      session->is_watched = 1;
    } else if (mode == 't') {
      send_trip(session);
    }
    return;
  }
  target = session;
  session->got += length - HEADERS;
  if (count > HEADERS) deliver(session, bytes + HEADERS, count - HEADERS);
}

static void LIBUSB_CALL read_done(struct libusb_transfer *transfer) {
  if (transfer->status != LIBUSB_TRANSFER_COMPLETED) fail("a read failed");
  int count = transfer->actual_length;
  if (count > 0 && left) {
    left -= (uint32_t)count;
    if (target) deliver(target, transfer->buffer, count);
  } else if (count > 0) {
    begin_packet(transfer->buffer, count);
  }
  if (libusb_submit_transfer(transfer)) fail("a read cannot be started");
}

// The device

static void find_interface(libusb_device *device) {
  struct libusb_config_descriptor *configuration;
  if (libusb_get_active_config_descriptor(device, &configuration)) fail("no configuration");
  for (int i = 0; i < configuration->bNumInterfaces; i++) {
    const struct libusb_interface_descriptor *one = configuration->interface[i].altsetting;
    if (one->bInterfaceClass != 0xff || one->bInterfaceSubClass != 0xfe || one->bInterfaceProtocol != 2) continue;
    for (int j = 0; j < one->bNumEndpoints; j++) {
      int address = one->endpoint[j].bEndpointAddress;
      if (address & 0x80) input = address;
      else output = address, packet_size = one->endpoint[j].wMaxPacketSize;
    }
    if (libusb_claim_interface(handle, one->bInterfaceNumber)) fail("the interface is taken");
  }
  libusb_free_config_descriptor(configuration);
  if (!input || !output) fail("no mux interface");
}

static void open_device(libusb_context *context) {
  libusb_device **list;
  ssize_t count = libusb_get_device_list(context, &list);
  for (ssize_t i = 0; i < count && !handle; i++) {
    struct libusb_device_descriptor descriptor;
    if (libusb_get_device_descriptor(list[i], &descriptor) || descriptor.idVendor != 0x05ac) continue;
    if (libusb_open(list[i], &handle)) fail("the device cannot be opened");
    find_interface(list[i]);
  }
  if (!handle) fail("no device");
}

static void start(void) {
  for (int i = 0; i < writes + SMALL_PACKETS; i++) {
    struct packet *packet = malloc(sizeof *packet + (i < writes ? PACKET : 64));
    packet->transfer = libusb_alloc_transfer(0);
    packet->is_small = i >= writes;
    struct packet **list = i < writes ? &free_packets : &free_small;
    packet->next = *list;
    *list = packet;
  }
  for (int i = 0; i < reads; i++) {
    struct libusb_transfer *transfer = libusb_alloc_transfer(0);
    libusb_fill_bulk_transfer(transfer, handle, (unsigned char)input, malloc((size_t)read_size), read_size, read_done, NULL, 0);
    if (libusb_submit_transfer(transfer)) fail("a read cannot be started");
  }
  struct packet *packet = take(&free_small);
  memset(packet->bytes, 0, 20);
  packet->bytes[7] = 20;
  packet->bytes[11] = 2;
  submit(packet, 20);
}

static int compare(const void *a, const void *b) {
  double left_one = *(const double *)a, right_one = *(const double *)b;
  return (left_one > right_one) - (left_one < right_one);
}

static void report(void) {
  double took = now_us() - began;
  if (mode == 't') {
    qsort(times, (size_t)trips, sizeof *times, compare);
    printf("%.1f %.1f\n", trips ? times[trips / 2] : 0, trips ? times[(int)(trips * 0.99)] : 0);
  } else {
    uint64_t bytes = moved;
    if (mode == 'u')
      for (int i = 0; i < SESSIONS; i++)
        if (sessions[i].is_open) bytes = sessions[i].edge - sessions[i].sent > 0x7fffffff ? 0 : sessions[i].sent;
    printf("%.1f\n", (double)bytes / took);
  }
  fflush(stdout);
  _exit(0);
}

static int usage(void) {
  fputs("usage: usb-loop [-r READS] [-s BYTES] [-w WRITES] [-W WINDOW] [-a ACKNOWLEDGE] relay PORT:DEVICE_PORT...\n"
        "       usb-loop [OPTIONS] down|up|trips SECONDS\n\n"
        "Relays connections to the first phone's ports, or prints the MB/s or the microseconds (p50, p99) that it\n"
        "reaches with ports 19, 9 and 7 without a socket.\n",
        stderr);
  return 2;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  for (int option; (option = getopt(argc, argv, "r:s:w:W:a:")) != -1;) {
    switch (option) {
    case 'r': reads = atoi(optarg); break;
    case 's': read_size = atoi(optarg); break;
    case 'w': writes = atoi(optarg); break;
    case 'W': window = (uint32_t)atoi(optarg), threshold = window / 4; break;
    case 'a': threshold = (uint32_t)atoi(optarg); break;
    default: return usage();
    }
  }
  if (optind + 2 > argc) return usage();
  mode = argv[optind++][0];
  service = mode == 'd' ? 19 : mode == 'u' ? 9 : 7;
  times = calloc(TRIPS, sizeof *times);
  libusb_context *context;
  if (libusb_init(&context)) fail("no libusb");
  set = epoll_create1(EPOLL_CLOEXEC);
  open_device(context);
  const struct libusb_pollfd **descriptors = libusb_get_pollfds(context);
  for (int i = 0; descriptors[i]; i++) {
    struct epoll_event event = {.events = (uint32_t)descriptors[i]->events, .data.u64 = 0};
    epoll_ctl(set, EPOLL_CTL_ADD, descriptors[i]->fd, &event);
  }
  if (mode == 'r') forwards = argv + optind;
  else seconds = atoi(argv[optind]);
  start();
  double end = now_us() + seconds * 1e6;
  struct timeval none = {0, 0};
  for (;;) {
    struct epoll_event events[16];
    int count = epoll_wait(set, events, 16, seconds ? 100 : -1), usb = 0;
    for (int i = 0; i < count; i++) {
      uint64_t what = events[i].data.u64;
      if (!what) usb = 1;
      else if (!(what & CLIENT)) accept_client((int)(uint32_t)what, (int)(what >> 32));
      else if (sessions[what - CLIENT].is_open) send_data(&sessions[what - CLIENT]);
    }
    if (usb && libusb_handle_events_timeout_completed(context, &none, NULL)) fail("libusb failed");
    send_more();
    if (seconds && now_us() > end) report();
  }
}
