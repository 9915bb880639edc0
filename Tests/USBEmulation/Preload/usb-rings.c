// Preloaded into a client of emulated USB devices, before umockdev's own library: submits and reaps transfers through
// memory that it shares with the emulator (CUMockdev/include/Rings.h). Other requests go on to umockdev.
#define _GNU_SOURCE
#include "../CUMockdev/include/Rings.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/usbdevice_fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 64 };

static struct known {
  ino_t inode;
  struct cu_ring_shared *ring;
} known[DEVICES];
static int known_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct cu_ring_shared *map(ino_t inode) {
  const char *prefix = getenv(CU_RINGS);
  char path[128];
  if (!prefix) return NULL;
  snprintf(path, sizeof path, "%s%llu", prefix, (unsigned long long)inode);
  // Not by open(), which umockdev leads elsewhere.
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  struct cu_ring_shared *ring = mmap(NULL, CU_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  return ring == MAP_FAILED || ring->magic != CU_RING_MAGIC ? NULL : ring;
}

// By the inode each time: descriptors are used again. The call stands for the one that a kernel would take.
static struct cu_ring_shared *find(int fd) {
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) || !S_ISFIFO(status.st_mode)) return NULL;
  struct cu_ring_shared *ring = NULL;
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < known_count && known[i].inode != status.st_ino) i++;
  if (i < known_count) ring = known[i].ring;
  else if (i < DEVICES && (ring = map(status.st_ino))) known[known_count++] = (struct known){status.st_ino, ring};
  pthread_mutex_unlock(&lock);
  return ring;
}

static char *data(struct cu_ring_shared *ring, uint32_t slot) {
  return (char *)ring + CU_RING_DATA + (size_t)slot * CU_RING_SLOT_BYTES;
}

static int submit(struct cu_ring_shared *ring, struct usbdevfs_urb *urb) {
  if (urb->buffer_length < 0 || urb->buffer_length > CU_RING_SLOT_BYTES) return EINVAL;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct cu_ring_item item = {
      .address = (uintptr_t)urb,
      .time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
      .length = (uint32_t)urb->buffer_length,
      .kind = urb->type == USBDEVFS_URB_TYPE_CONTROL ? CU_RING_CONTROL : CU_RING_BULK,
      .endpoint = urb->endpoint,
      .needs_zero_packet = (urb->flags & USBDEVFS_URB_ZERO_PACKET) != 0,
  };
  pthread_mutex_lock(&ring->lock);
  int error = ring->gone ? ENODEV : ring->free_count ? 0 : ENOMEM;
  if (!error) item.slot = ring->free_slots[--ring->free_count];
  pthread_mutex_unlock(&ring->lock);
  if (error) return error;
  if (item.kind == CU_RING_CONTROL || !(urb->endpoint & 0x80))
    memcpy(data(ring, item.slot), urb->buffer, item.length);
  pthread_mutex_lock(&ring->lock);
  (void)cu_ring_push(&ring->submitted, &item);
  int wakes = ring->waiting;
  pthread_mutex_unlock(&ring->lock);
  if (wakes) pthread_cond_signal(&ring->work);
  return 0;
}

static int discard(struct cu_ring_shared *ring, void *urb) {
  struct cu_ring_item item = {.address = (uintptr_t)urb, .kind = CU_RING_DISCARD};
  pthread_mutex_lock(&ring->lock);
  int error = ring->gone ? ENODEV : cu_ring_push(&ring->submitted, &item) ? EINVAL : 0;
  pthread_mutex_unlock(&ring->lock);
  if (!error) pthread_cond_signal(&ring->work);
  return error;
}

static int reap(struct cu_ring_shared *ring, int fd, void **result) {
  struct cu_ring_item item;
  pthread_mutex_lock(&ring->lock);
  int none = cu_ring_pop(&ring->done, &item);
  if (none && ring->ready && !ring->gone) {
    // One byte fills the pipe, which has one page only.
    ring->ready = 0;
    if (syscall(SYS_write, fd, "", 1) < 0 && errno != EAGAIN) perror("usb-rings");
  }
  int gone = ring->gone;
  pthread_mutex_unlock(&ring->lock);
  if (none) return gone ? ENODEV : EAGAIN;
  struct usbdevfs_urb *urb = (void *)(uintptr_t)item.address;
  int is_control = item.kind == CU_RING_CONTROL;
  if (item.length && (is_control || item.endpoint & 0x80))
    memcpy((char *)urb->buffer + (is_control ? 8 : 0), data(ring, item.slot) + (is_control ? 8 : 0), item.length);
  if (is_control || item.endpoint & 0x80) {
    pthread_mutex_lock(&ring->lock);
    ring->free_slots[ring->free_count++] = (uint16_t)item.slot;
    pthread_mutex_unlock(&ring->lock);
  }
  urb->status = item.status;
  urb->actual_length = (int)item.length;
  *result = urb;
  return 0;
}

int ioctl(int fd, unsigned long request, ...) {
  static int (*next)(int, unsigned long, ...);
  if (!next) next = (__typeof__(next))dlsym(RTLD_NEXT, "ioctl");
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  struct cu_ring_shared *ring;
  int error;
  switch (request) {
  case USBDEVFS_SUBMITURB:
    if (!(ring = find(fd))) break;
    error = submit(ring, argument);
    goto done;
  case USBDEVFS_DISCARDURB:
    if (!(ring = find(fd))) break;
    error = discard(ring, argument);
    goto done;
  case USBDEVFS_REAPURB:
  case USBDEVFS_REAPURBNDELAY:
    if (!(ring = find(fd))) break;
    error = reap(ring, fd, argument);
    goto done;
  default: break;
  }
  return next(fd, request, argument);
done:
  if (!error) return 0;
  errno = error;
  return -1;
}
