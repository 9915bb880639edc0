#define _GNU_SOURCE
#include "forwarder.h"
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 64, TEXT = 4096 };

void pin(pid_t process, int one_cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < (one_cpu ? 1 : CPU_SETSIZE); i++) CPU_SET(i, &set);
  sched_setaffinity(process, sizeof set, &set);
}

static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, (void *)&address, length) || getsockname(fd, (void *)&address, &length)) perror("bind");
  close(fd);
  return ntohs(address.sin_port);
}

static int accepts(int port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int failed = connect(fd, (void *)&address, sizeof address);
  close(fd);
  return !failed;
}

// Puts the values in, and cuts the text into words in place.
static int split(const char *command, int port, const char *socket, char text[TEXT], char *words[WORDS]) {
  char *out = text, *end = text + TEXT - 1;
  while (*command && out < end) {
    if (!strncmp(command, "{port}", 6)) out += snprintf(out, (size_t)(end - out), "%d", port), command += 6;
    else if (!strncmp(command, "{devport}", 9)) out += snprintf(out, (size_t)(end - out), "%d", PHONE_PORT), command += 9;
    else if (!strncmp(command, "{socket}", 8)) out += snprintf(out, (size_t)(end - out), "%s", socket), command += 8;
    else *out++ = *command++;
  }
  *out = 0;
  int count = 0;
  for (char *word = strtok(text, " "); word && count < WORDS - 1; word = strtok(NULL, " ")) words[count++] = word;
  words[count] = NULL;
  return count;
}

// Words before the program are its environment.
static char **program(char **words) {
  while (*words && strchr(*words, '=') && **words != '/' && **words != '-') words++;
  return words;
}

int forwarder_start(struct forwarder *forwarder, const char *command, const char *socket, int one_cpu) {
  char text[TEXT], *words[WORDS];
  forwarder->port = free_port();
  split(command, forwarder->port, socket, text, words);
  double start = now_us();
  forwarder->process = fork();
  if (forwarder->process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (one_cpu) pin(0, 1);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    char **first = program(words);
    for (char **word = words; word < first; word++) putenv(*word);
    execvp(*first, first);
    _exit(127);
  }
  while (now_us() - start < 20e6) {
    if (accepts(forwarder->port)) {
      forwarder->start_us = now_us() - start;
      return 0;
    }
    if (waitpid(forwarder->process, NULL, WNOHANG) == forwarder->process) break;
    usleep(50);
  }
  forwarder_stop(forwarder);
  return -1;
}

void forwarder_stop(struct forwarder *forwarder) {
  if (forwarder->process <= 0) return;
  kill(forwarder->process, SIGTERM);
  for (int i = 0; i < 10000; i++) {
    if (waitpid(forwarder->process, NULL, WNOHANG)) {
      forwarder->process = 0;
      return;
    }
    usleep(1000);
  }
  kill(forwarder->process, SIGKILL);
  waitpid(forwarder->process, NULL, 0);
  forwarder->process = 0;
}

double forwarder_cpu(const struct forwarder *forwarder) {
  clockid_t clock;
  struct timespec time;
  if (clock_getcpuclockid(forwarder->process, &clock) || clock_gettime(clock, &time)) return 0;
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// The number behind `key` in a file of /proc, or -1.
static long lookup(pid_t process, const char *file, const char *key) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/%s", process, file);
  FILE *stream = fopen(path, "re");
  if (!stream) return -1;
  long value = -1;
  while (value < 0 && fgets(line, sizeof line, stream))
    if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
  fclose(stream);
  return value;
}

struct memory forwarder_memory(const struct forwarder *forwarder) {
  return (struct memory){lookup(forwarder->process, "smaps_rollup", "Pss:"),
                         lookup(forwarder->process, "smaps_rollup", "Anonymous:")};
}

int forwarder_threads(const struct forwarder *forwarder) {
  return (int)lookup(forwarder->process, "status", "Threads:");
}

int forwarder_exists(const char *command) {
  char text[TEXT], *words[WORDS], path[TEXT];
  split(command, 0, "", text, words);
  const char *name = *program(words);
  if (!name) return 0;
  if (strchr(name, '/')) return !access(name, X_OK);
  const char *directories = getenv("PATH");
  while (directories && *directories) {
    size_t length = strcspn(directories, ":");
    snprintf(path, sizeof path, "%.*s/%s", (int)length, directories, name);
    if (!access(path, X_OK)) return 1;
    directories += length + (directories[length] == ':');
  }
  return 0;
}
