#define _GNU_SOURCE
#include "CUMockdev.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <linux/usbdevice_fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

// GObject and umockdev, as their documentation declares them.
static void *(*testbed_new)(void);
static char *(*testbed_get_root_dir)(void *);
static int (*testbed_attach_ioctl)(void *, const char *, void *, void **);
static int (*testbed_detach_ioctl)(void *, const char *, void **);
static int (*testbed_add_from_string)(void *, const char *, void **);
static void (*testbed_set_attribute)(void *, const char *, const char *, const char *);
static void (*testbed_set_property)(void *, const char *, const char *, const char *);
static void (*testbed_uevent)(void *, const char *, const char *);
static void (*testbed_remove_device)(void *, const char *);
static void *(*base_new)(void);
static unsigned long (*client_get_request)(void *);
static void *(*client_get_arg)(void *);
static void (*client_complete)(void *, long, int);
static unsigned long (*signal_connect_data)(void *, const char *, void (*)(void), void *, void *, int);

static void *bed;
static char *root;

struct node {
  cu_request request;
  cu_closed closed;
  void *context;
};

// The public head of struct _UMockdevIoctlData: a GObject, the data, its length.
struct ioctl_data {
  void *class;
  unsigned references;
  void *qdata;
  unsigned char *data;
  int length;
};

static int handle(void *base, void *client, void *context) {
  (void)base;
  struct node *node = context;
  uint64_t argument = 0;
  struct ioctl_data *data = client_get_arg(client);
  if (data && data->data && data->length >= (int)sizeof argument)
    memcpy(&argument, data->data, sizeof argument);
  long result = node->request(node->context, (uintptr_t)client, client_get_request(client), argument);
  client_complete(client, result < 0 ? -1 : result, result < 0 ? (int)-result : 0);
  return 1;
}

static void vanished(void *base, void *client, void *context) {
  (void)base;
  struct node *node = context;
  node->closed(node->context, (uintptr_t)client);
}

static void *library(const char *name, const char **error) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (!handle) *error = dlerror();
  return handle;
}

int cu_start(const char **error) {
  void *umockdev = library("libumockdev.so.0", error);
  void *gobject = library("libgobject-2.0.so.0", error);
  if (!umockdev || !gobject) return -1;
  *error = "libumockdev is not the expected version";
#define FIND(handle, name, symbol) \
  if (!(name = (__typeof__(name))dlsym(handle, symbol))) return -1
  FIND(umockdev, testbed_new, "umockdev_testbed_new");
  FIND(umockdev, testbed_get_root_dir, "umockdev_testbed_get_root_dir");
  FIND(umockdev, testbed_attach_ioctl, "umockdev_testbed_attach_ioctl");
  FIND(umockdev, testbed_detach_ioctl, "umockdev_testbed_detach_ioctl");
  FIND(umockdev, testbed_add_from_string, "umockdev_testbed_add_from_string");
  FIND(umockdev, testbed_set_attribute, "umockdev_testbed_set_attribute");
  FIND(umockdev, testbed_set_property, "umockdev_testbed_set_property");
  FIND(umockdev, testbed_uevent, "umockdev_testbed_uevent");
  FIND(umockdev, testbed_remove_device, "umockdev_testbed_remove_device");
  FIND(umockdev, base_new, "umockdev_ioctl_base_new");
  FIND(umockdev, client_get_request, "umockdev_ioctl_client_get_request");
  FIND(umockdev, client_get_arg, "umockdev_ioctl_client_get_arg");
  FIND(umockdev, client_complete, "umockdev_ioctl_client_complete");
  FIND(gobject, signal_connect_data, "g_signal_connect_data");
#undef FIND
  bed = testbed_new();
  if (!bed) {
    *error = "no testbed";
    return -1;
  }
  root = testbed_get_root_dir(bed);
  return 0;
}

const char *cu_root(void) { return root; }

int cu_attach(const char *path, cu_request request, cu_closed closed, void *context) {
  struct node *node = malloc(sizeof *node);  // lives as long as the process
  if (!node) return -1;
  *node = (struct node){request, closed, context};
  void *base = base_new();
  signal_connect_data(base, "handle-ioctl", (void (*)(void))handle, node, NULL, 0);
  signal_connect_data(base, "client-vanished", (void (*)(void))vanished, node, NULL, 0);
  return testbed_attach_ioctl(bed, path, base, NULL) ? 0 : -1;
}

void cu_detach(const char *node) { testbed_detach_ioctl(bed, node, NULL); }
int cu_add(const char *description) { return testbed_add_from_string(bed, description, NULL) ? 0 : -1; }
void cu_set_property(const char *path, const char *name, const char *value) {
  testbed_set_property(bed, path, name, value);
}
void cu_set_attribute(const char *path, const char *name, const char *value) {
  testbed_set_attribute(bed, path, name, value);
}
void cu_uevent(const char *path, const char *action) { testbed_uevent(bed, path, action); }
void cu_remove(const char *path) { testbed_remove_device(bed, path); }

int cu_make_fifo(const char *path) {
  char directory[512];
  if (strlen(path) >= sizeof directory) return -1;
  strcpy(directory, path);
  for (char *slash = strchr(directory + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)mkdir(directory, 0755);
    *slash = '/';
  }
  (void)unlink(path);
  if (mkfifo(path, 0666)) return -1;
  (void)chmod(path, 0666);
  int fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fifo < 0) return -1;
  (void)fcntl(fifo, F_SETPIPE_SZ, 4096);
  cu_set_ready(fifo, 0);
  return fifo;
}

void cu_set_ready(int fifo, int ready) {
  static const char page[4096];
  char scratch[4096];
  if (ready) {
    while (read(fifo, scratch, sizeof scratch) > 0) {}
  } else {
    while (write(fifo, page, sizeof page) > 0) {}
  }
}

int cu_read_memory(int64_t process, uint64_t address, void *bytes, size_t count) {
  struct iovec here = {bytes, count}, there = {(void *)(uintptr_t)address, count};
  return process_vm_readv((pid_t)process, &here, 1, &there, 1, 0) == (ssize_t)count ? 0 : -1;
}

int cu_write_memory(int64_t process, uint64_t address, const void *bytes, size_t count) {
  struct iovec here = {(void *)(uintptr_t)bytes, count}, there = {(void *)(uintptr_t)address, count};
  return process_vm_writev((pid_t)process, &here, 1, &there, 1, 0) == (ssize_t)count ? 0 : -1;
}

int cu_read_urb(int64_t process, uint64_t address, struct cu_urb *urb) {
  struct usbdevfs_urb raw;
  if (cu_read_memory(process, address, &raw, sizeof raw)) return -1;
  *urb = (struct cu_urb){raw.type, raw.endpoint, raw.flags, (uintptr_t)raw.buffer, raw.buffer_length};
  return 0;
}

int cu_finish_urb(int64_t process, uint64_t address, int32_t status, int32_t actual_length) {
  uint64_t at = address + offsetof(struct usbdevfs_urb, status);
  if (cu_write_memory(process, at, &status, sizeof status)) return -1;
  at = address + offsetof(struct usbdevfs_urb, actual_length);
  return cu_write_memory(process, at, &actual_length, sizeof actual_length);
}

enum cu_kind cu_kind_of(unsigned long request) {
  switch (request) {
  case USBDEVFS_GET_CAPABILITIES: return CU_CAPABILITIES;
  case USBDEVFS_CLAIMINTERFACE: return CU_CLAIM;
  case USBDEVFS_RELEASEINTERFACE: return CU_RELEASE;
  case USBDEVFS_SETCONFIGURATION: return CU_SET_CONFIGURATION;
  case USBDEVFS_GETDRIVER: return CU_GET_DRIVER;
  case USBDEVFS_IOCTL: return CU_DRIVER_REQUEST;
  case USBDEVFS_SUBMITURB: return CU_SUBMIT;
  case USBDEVFS_DISCARDURB: return CU_DISCARD;
  case USBDEVFS_REAPURB:
  case USBDEVFS_REAPURBNDELAY: return CU_REAP;
  case USBDEVFS_RESET: return CU_RESET;
  case USBDEVFS_CLEAR_HALT:
  case USBDEVFS_RESETEP: return CU_CLEAR_HALT;
  default: return CU_OTHER;
  }
}

int cu_listen(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  (void)unlink(path);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) {
    close(listener);
    return -1;
  }
  return listener;
}

int64_t cu_spawn(char *const arguments[]) {
  pid_t parent = getpid();
  pid_t process = fork();
  if (process == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    // It does not outlive the emulator, however that ends.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    execv(arguments[0], arguments);
    _exit(127);
  }
  return process;
}
#endif
