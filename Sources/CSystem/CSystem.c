#define _GNU_SOURCE
#include "CSystem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

_Static_assert((int)CS_EPOLL_IN == (int)EPOLLIN && (int)CS_EPOLL_OUT == (int)EPOLLOUT && (int)CS_EPOLL_ERR == (int)EPOLLERR &&
                   (int)CS_EPOLL_HUP == (int)EPOLLHUP && (int)CS_EPOLL_RDHUP == (int)EPOLLRDHUP,
               "epoll's numbers");

int cs_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

static int control(int epoll, int operation, int fd, uint32_t events, int edge, uint64_t token) {
  struct epoll_event event = {.events = events | (edge ? (uint32_t)EPOLLET : 0), .data.u64 = token};
  return epoll_ctl(epoll, operation, fd, &event);
}

int cs_epoll_add(int epoll, int fd, uint32_t events, int edge, uint64_t token) {
  return control(epoll, EPOLL_CTL_ADD, fd, events, edge, token);
}

int cs_epoll_modify(int epoll, int fd, uint32_t events, int edge, uint64_t token) {
  return control(epoll, EPOLL_CTL_MOD, fd, events, edge, token);
}

int cs_epoll_remove(int epoll, int fd) { return epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL); }

int cs_epoll_wait(int epoll, struct cs_epoll_event *events, int capacity, int timeout_ms) {
  struct epoll_event raw[64];
  if (capacity > 64) capacity = 64;
  int count = epoll_wait(epoll, raw, capacity, timeout_ms);
  for (int i = 0; i < count; i++) {
    events[i].events = raw[i].events;
    events[i].token = raw[i].data.u64;
  }
  return count;
}

int cs_splice_pipe(int ends[2], int capacity) {
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC)) return -1;
  // A refusal (the user's pipe budget is used up) leaves 64 KiB, which is slower and still right.
  (void)fcntl(ends[1], F_SETPIPE_SZ, capacity);
  return 0;
}

ssize_t cs_splice(int from, int to, size_t count) {
  return splice(from, NULL, to, NULL, count, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
}

int cs_sock_diag_open(void) {
  return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
}

// Whether both ends of a connection are on this machine: loopback, or the same address.
static int is_same_machine(const struct sockaddr_storage *local, const struct sockaddr_storage *peer) {
  if (local->ss_family != peer->ss_family) return 0;
  if (local->ss_family == AF_INET) {
    const struct sockaddr_in *l = (const void *)local, *p = (const void *)peer;
    return (ntohl(p->sin_addr.s_addr) >> 24) == 127 || l->sin_addr.s_addr == p->sin_addr.s_addr;
  }
  if (local->ss_family == AF_INET6) {
    const struct sockaddr_in6 *l = (const void *)local, *p = (const void *)peer;
    return IN6_IS_ADDR_LOOPBACK(&p->sin6_addr) || !memcmp(&l->sin6_addr, &p->sin6_addr, sizeof l->sin6_addr);
  }
  return 0;
}

static int fill(struct inet_diag_sockid *id, const struct sockaddr_storage *source,
                const struct sockaddr_storage *destination) {
  if (source->ss_family == AF_INET && destination->ss_family == AF_INET) {
    const struct sockaddr_in *s = (const void *)source, *d = (const void *)destination;
    id->idiag_sport = s->sin_port;
    id->idiag_dport = d->sin_port;
    memcpy(id->idiag_src, &s->sin_addr, sizeof s->sin_addr);
    memcpy(id->idiag_dst, &d->sin_addr, sizeof d->sin_addr);
    return 0;
  }
  if (source->ss_family == AF_INET6 && destination->ss_family == AF_INET6) {
    const struct sockaddr_in6 *s = (const void *)source, *d = (const void *)destination;
    id->idiag_sport = s->sin6_port;
    id->idiag_dport = d->sin6_port;
    memcpy(id->idiag_src, &s->sin6_addr, sizeof s->sin6_addr);
    memcpy(id->idiag_dst, &d->sin6_addr, sizeof d->sin6_addr);
    return 0;
  }
  errno = EAFNOSUPPORT;
  return -1;
}

int cs_tcp_peer_inode(int diag, int fd, uint64_t *inode) {
  struct sockaddr_storage local, peer;
  socklen_t local_length = sizeof local, peer_length = sizeof peer;
  memset(&local, 0, sizeof local);
  memset(&peer, 0, sizeof peer);
  if (getsockname(fd, (struct sockaddr *)&local, &local_length) ||
      getpeername(fd, (struct sockaddr *)&peer, &peer_length))
    return -1;
  if (!is_same_machine(&local, &peer)) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  struct {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
  } query = {
      .header = {.nlmsg_len = sizeof query, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
      .request = {.sdiag_family = (uint8_t)local.ss_family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u},
  };
  query.request.id.idiag_cookie[0] = query.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  // The other end's view of the pair: its source is our peer.
  if (fill(&query.request.id, &peer, &local)) return -1;
  static uint32_t sequence;
  query.header.nlmsg_seq = __atomic_add_fetch(&sequence, 1, __ATOMIC_RELAXED);
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  if (sendto(diag, &query, sizeof query, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0) return -1;
  // The kernel answers while the request is sent, so the reply is there already. An older reply that a
  // failed call left behind is passed over by its number.
  for (int i = 0; i < 8; i++) {
    union {
      struct nlmsghdr header;
      char bytes[4096];
    } reply;
    ssize_t got = recv(diag, &reply, sizeof reply, 0);
    if (got < 0) return -1;
    if (!NLMSG_OK(&reply.header, (size_t)got) || reply.header.nlmsg_seq != query.header.nlmsg_seq) continue;
    if (reply.header.nlmsg_type == NLMSG_ERROR) {
      if ((size_t)got < NLMSG_LENGTH(sizeof(struct nlmsgerr))) break;
      errno = -((struct nlmsgerr *)NLMSG_DATA(&reply.header))->error;
      return -1;
    }
    if (reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        (size_t)got < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
      break;
    *inode = ((struct inet_diag_msg *)NLMSG_DATA(&reply.header))->idiag_inode;
    return 0;
  }
  errno = EPROTO;
  return -1;
}
#endif

#if !defined(__linux__)
static int adopt(int fd) {
  if (fd < 0) return -1;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
#if defined(SO_NOSIGPIPE)
  int one = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof one);
#endif
  return fd;
}
#endif

int cs_accept(int listener) {
#if defined(__linux__)
  return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  return adopt(accept(listener, NULL, NULL));
#endif
}

int cs_socket(int family, int type) {
#if defined(__linux__)
  return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
#else
  return adopt(socket(family, type, 0));
#endif
}

int cs_socketpair(int ends[2]) {
#if defined(__linux__)
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
#else
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return -1;
  if (adopt(ends[0]) < 0) {
    close(ends[1]);
    return -1;
  }
  if (adopt(ends[1]) < 0) {
    close(ends[0]);
    return -1;
  }
  return 0;
#endif
}

int cs_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) ? errno : error;
}

int cs_set_int(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value);
}

int cs_get_int(int fd, int level, int option, int *value) {
  socklen_t length = sizeof *value;
  return getsockopt(fd, level, option, value, &length);
}

int cs_reset_on_close(int fd) {
  struct linger linger = {.l_onoff = 1, .l_linger = 0};
  return setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

void cs_tune_tcp(int fd, int idle_seconds) {
  (void)cs_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  (void)cs_set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  (void)cs_set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
#elif defined(TCP_KEEPALIVE)
  (void)cs_set_int(fd, IPPROTO_TCP, TCP_KEEPALIVE, idle_seconds);
#endif
}

int cs_address_text(const struct sockaddr_storage *address, socklen_t length, char *text, size_t capacity) {
  if (capacity == 0) return -1;
  if (address->ss_family == AF_UNIX) {
    const struct sockaddr_un *local = (const void *)address;
    size_t start = offsetof(struct sockaddr_un, sun_path);
    size_t count = length > start ? strnlen(local->sun_path, length - start) : 0;
    if (count >= capacity) return -1;
    memcpy(text, local->sun_path, count);
    text[count] = 0;
    return (int)count;
  }
  if (getnameinfo((const struct sockaddr *)address, length, text, (socklen_t)capacity, NULL, 0, NI_NUMERICHOST)) return -1;
  return (int)strlen(text);
}

uint16_t cs_address_port(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET) return ntohs(((const struct sockaddr_in *)address)->sin_port);
  if (address->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
  return 0;
}

void cs_address_set_port(struct sockaddr_storage *address, uint16_t port) {
  if (address->ss_family == AF_INET) ((struct sockaddr_in *)address)->sin_port = htons(port);
  if (address->ss_family == AF_INET6) ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
}

socklen_t cs_address_parse(const char *host, uint16_t port, struct sockaddr_storage *address) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found = NULL;
  if (getaddrinfo(host, NULL, &hints, &found) || !found) return 0;
  socklen_t length = (socklen_t)found->ai_addrlen;
  memset(address, 0, sizeof *address);
  if (length <= sizeof *address) memcpy(address, found->ai_addr, length);
  else length = 0;
  freeaddrinfo(found);
  cs_address_set_port(address, port);
  return length;
}

socklen_t cs_address_unix(const char *path, struct sockaddr_storage *address) {
  struct sockaddr_un *local = (void *)address;
  size_t count = strlen(path);
  if (count == 0 || count >= sizeof local->sun_path) return 0;
  memset(address, 0, sizeof *address);
  local->sun_family = AF_UNIX;
  memcpy(local->sun_path, path, count + 1);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + count + 1);
#if !defined(__linux__)
  local->sun_len = (uint8_t)length;
#endif
  return length;
}

int64_t cs_peer_process(int fd) {
#if defined(__linux__)
  struct ucred credentials;
  socklen_t length = sizeof credentials;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) ? 0 : credentials.pid;
#elif defined(LOCAL_PEERPID)
  pid_t process = 0;
  socklen_t length = sizeof process;
  return getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &process, &length) ? 0 : process;
#else
  (void)fd;
  return 0;
#endif
}

int cs_peer_credentials(int fd, uint32_t *user, uint32_t *group) {
#if defined(__linux__)
  struct ucred credentials;
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length)) return -1;
  *user = credentials.uid;
  *group = credentials.gid;
  return 0;
#else
  uid_t peer_user;
  gid_t peer_group;
  if (getpeereid(fd, &peer_user, &peer_group)) return -1;
  *user = peer_user;
  *group = peer_group;
  return 0;
#endif
}

int cs_peer_has_group(int fd, uint32_t group) {
#if defined(__linux__)
#if !defined(SO_PEERGROUPS)
#define SO_PEERGROUPS 59
#endif
  gid_t groups[1024];
  socklen_t length = sizeof groups;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &length)) return 0;
  for (size_t index = 0; index < length / sizeof *groups; index++) {
    if (groups[index] == group) return 1;
  }
  return 0;
#elif defined(LOCAL_PEERCRED)
  struct xucred credentials;
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERCRED, &credentials, &length)) return 0;
  for (int index = 0; index < credentials.cr_ngroups; index++) {
    if (credentials.cr_groups[index] == group) return 1;
  }
  return 0;
#else
  (void)fd;
  (void)group;
  return 0;
#endif
}

int cs_process_descriptor(int64_t process) {
#if defined(__linux__)
#if !defined(SYS_pidfd_open)
#define SYS_pidfd_open 434
#endif
  return (int)syscall(SYS_pidfd_open, (pid_t)process, 0);
#else
  (void)process;
  errno = ENOSYS;
  return -1;
#endif
}

void cs_unblock_signals(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

uint64_t cs_wall_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void cs_utc_time(char text[25]) {
  struct timespec now;
  struct tm parts;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &parts);
  size_t count = strftime(text, 25, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + count, 25 - count, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

uint64_t cs_raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return 256;
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
#if defined(__APPLE__)
  // Darwin refuses more than OPEN_MAX where the hard limit says "infinity".
  if (limit.rlim_cur > 10240) limit.rlim_cur = 10240;
#endif
  if (limit.rlim_cur < before || setrlimit(RLIMIT_NOFILE, &limit)) return before;
  return limit.rlim_cur;
}

int cs_poll_writable(int fd, int timeout_ms) {
  struct pollfd entry = {.fd = fd, .events = POLLOUT};
  int count = poll(&entry, 1, timeout_ms);
  return count < 0 ? -1 : count > 0;
}

int cs_has_hung_up(int fd) {
  // Asked for writability alone: that a peer has only ended its sending side is no answer to that, on Darwin too.
  struct pollfd entry = {.fd = fd, .events = POLLOUT};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

int cs_terminal_size(int fd, int *columns, int *rows) {
  struct winsize size;
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return -1;
  *columns = size.ws_col;
  *rows = size.ws_row;
  return 0;
}

void cs_ignore_sigpipe(void) { signal(SIGPIPE, SIG_IGN); }

void cs_block_sigpipe(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}
