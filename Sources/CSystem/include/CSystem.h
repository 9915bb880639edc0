// What the kernel offers and Swift's import of the C library leaves out: GNU extensions, macros with
// arguments, netlink messages. Thin by intent; the decisions are made in Swift.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#if defined(__linux__)

struct cs_epoll_event {
  uint32_t events;
  uint64_t token;
};

enum {
  CS_EPOLL_IN = 0x001,
  CS_EPOLL_OUT = 0x004,
  CS_EPOLL_ERR = 0x008,
  CS_EPOLL_HUP = 0x010,
  CS_EPOLL_RDHUP = 0x2000,
};

int cs_epoll_create(void);
/// Adds `fd` edge-triggered (or level-triggered where `edge` is 0).
int cs_epoll_add(int epoll, int fd, uint32_t events, int edge, uint64_t token);
int cs_epoll_modify(int epoll, int fd, uint32_t events, int edge, uint64_t token);
int cs_epoll_remove(int epoll, int fd);
/// Waits at most `timeout_ms` (-1: for ever). Returns the number of events, or -1 with errno.
int cs_epoll_wait(int epoll, struct cs_epoll_event *events, int capacity, int timeout_ms);

/// A pipe whose ends do not block, of at least `capacity` bytes where the kernel grants them.
int cs_splice_pipe(int ends[2], int capacity);
/// splice(2), never blocking, moving pages where it can.
ssize_t cs_splice(int from, int to, size_t count);

/// A netlink socket for cs_tcp_peer_inode, or -1 with errno.
int cs_sock_diag_open(void);
/// The inode of the socket at the other end of the connected TCP socket `fd`, when that end is on this
/// machine and in this network namespace. Returns 0 and stores the inode (0: no process owns the socket
/// any more), or -1 with errno (ENOENT: there is no such socket here; EADDRNOTAVAIL: it is on another machine).
int cs_tcp_peer_inode(int diag, int fd, uint64_t *inode);

#endif

/// Accepts one connection: non-blocking, closed on exec. -1 with errno.
int cs_accept(int listener);
/// A socket that is non-blocking and closed on exec. -1 with errno.
int cs_socket(int family, int type);
/// Two connected Unix stream sockets, non-blocking and closed on exec.
int cs_socketpair(int ends[2]);

/// The pending error of a socket (SO_ERROR), or errno when it cannot be read.
int cs_socket_error(int fd);
int cs_set_int(int fd, int level, int option, int value);
int cs_get_int(int fd, int level, int option, int *value);
/// Makes the next close() of `fd` send a reset instead of an orderly end.
int cs_reset_on_close(int fd);
/// TCP_NODELAY and keep-alive (first probe after `idle` seconds). Errors are ignored: neither is vital.
void cs_tune_tcp(int fd, int idle_seconds);

/// Writes the textual form of an address, as `127.0.0.1`, `::1` or a path; returns its length or -1.
int cs_address_text(const struct sockaddr_storage *address, socklen_t length, char *text, size_t capacity);
/// The port of an IPv4 or IPv6 address in host order, else 0.
uint16_t cs_address_port(const struct sockaddr_storage *address);
void cs_address_set_port(struct sockaddr_storage *address, uint16_t port);
/// Parses a numeric IPv4 or IPv6 address (with `%scope`). Returns the length of the address, 0 if it is none.
socklen_t cs_address_parse(const char *host, uint16_t port, struct sockaddr_storage *address);
/// The address of a Unix socket; 0 when the path is empty or too long.
socklen_t cs_address_unix(const char *path, struct sockaddr_storage *address);

/// The process at the other end of a Unix socket (for a connected one: the process that listened); 0 where
/// it cannot be told.
int64_t cs_peer_process(int fd);
/// User and group of the process at the other end of a Unix socket. 0, or -1 with errno.
int cs_peer_credentials(int fd, uint32_t *user, uint32_t *group);
/// Whether `group` is one of that process's groups: 1 yes, 0 no, or it cannot be told.
int cs_peer_has_group(int fd, uint32_t group);

/// A descriptor that becomes readable when the process ends (Linux 5.3), closed on exec. -1 with errno.
int cs_process_descriptor(int64_t process);
/// Lets SIGTERM, SIGINT and SIGHUP reach this process, whatever mask it was started with.
void cs_unblock_signals(void);
/// Nanoseconds since 1970, by the time of day.
uint64_t cs_wall_clock(void);
/// The time of day in UTC, as `2024-01-31T12:34:56.789Z`, into 25 bytes.
void cs_utc_time(char text[25]);

/// Raises the soft limit of descriptors to the hard one; returns the limit in force.
uint64_t cs_raise_descriptor_limit(void);
/// Waits until `fd` takes bytes, at most `timeout_ms`. 1 yes, 0 no, -1 error.
int cs_poll_writable(int fd, int timeout_ms);
/// Whether nothing can be sent any more: the peer of a Unix socket has closed it, or a TCP socket was reset. Not
/// so while the peer has only ended its sending side.
int cs_has_hung_up(int fd);
/// The size of the terminal that `fd` is, in characters. 0, or -1 with errno.
int cs_terminal_size(int fd, int *columns, int *rows);
void cs_ignore_sigpipe(void);
/// Blocks SIGPIPE in the calling thread: what broken pipes raise there goes nowhere.
void cs_block_sigpipe(void);
