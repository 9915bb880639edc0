// A forwarder under test: a process that is started for each figure, and what it uses.
#pragma once
#include <sys/types.h>

struct forwarder {
  pid_t process;
  int port;
  double start_us;
};

struct memory {
  // KiB; -1 when the process is gone.
  long pss, anonymous;
};

// Starts `command`, in which {port}, {devport} and {socket} are replaced, leading NAME=VALUE words are its
// environment, and waits until its port takes connections. With `one_cpu` it runs on the first CPU only.
// Returns 0, or -1 when it does not listen within 20 s.
int forwarder_start(struct forwarder *forwarder, const char *command, const char *socket, int one_cpu);
void forwarder_stop(struct forwarder *forwarder);
// Seconds of CPU time so far.
double forwarder_cpu(const struct forwarder *forwarder);
struct memory forwarder_memory(const struct forwarder *forwarder);
int forwarder_threads(const struct forwarder *forwarder);
// Whether the program that `command` starts can be found.
int forwarder_exists(const char *command);
// Keeps the calling process on the first CPU, or lets it go.
void pin(pid_t process, int one_cpu);
