#pragma once
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-daemon.h>

// libsystemd is loaded when a service manager has left word in the environment, and not linked: with the libraries
// that it needs it costs 1 to 2 ms of each start and 0.6 MB, which a command line has no use for. Where it is
// missing, nobody is notified.

static inline void *csd_symbol(const char *name) {
  void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : NULL;
}

/// sd_notify(3); the environment stays as it is.
static inline int csd_notify(const char *state) {
  __typeof__(&sd_notify) call = (__typeof__(&sd_notify))csd_symbol("sd_notify");
  return call ? call(0, state) : -ENOSYS;
}

/// sd_watchdog_enabled(3); the environment stays as it is.
static inline int csd_watchdog_enabled(uint64_t *microseconds) {
  __typeof__(&sd_watchdog_enabled) call = (__typeof__(&sd_watchdog_enabled))csd_symbol("sd_watchdog_enabled");
  return call ? call(0, microseconds) : -ENOSYS;
}

/// sd_listen_fds_with_names(3); the environment stays as it is: whoever is started from here has another process
/// number, and so is not meant.
static inline int csd_listen_fds_with_names(char ***names) {
  __typeof__(&sd_listen_fds_with_names) call =
      (__typeof__(&sd_listen_fds_with_names))csd_symbol("sd_listen_fds_with_names");
  return call ? call(0, names) : -ENOSYS;
}
