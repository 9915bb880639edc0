#define _GNU_SOURCE
#include "Rings.h"

#if defined(__linux__)
#include "CUMockdev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char prefix[64];

void cu_rings_begin(void) {
  snprintf(prefix, sizeof prefix, "/dev/shm/usb-rings-%d-", getpid());
  setenv(CU_RINGS, prefix, 1);
}

static int path_of(int fifo, char *path, size_t size) {
  struct stat status;
  if (fstat(fifo, &status)) return -1;
  snprintf(path, size, "%s%llu", prefix, (unsigned long long)status.st_ino);
  return 0;
}

struct cu_ring_shared *cu_ring_create(int fifo) {
  char path[128];
  if (path_of(fifo, path, sizeof path)) return NULL;
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  struct cu_ring_shared *ring = MAP_FAILED;
  if (!ftruncate(fd, CU_RING_BYTES)) ring = mmap(NULL, CU_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (ring == MAP_FAILED) return NULL;
  pthread_mutexattr_t mutex;
  pthread_condattr_t condition;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
  pthread_mutex_init(&ring->lock, &mutex);
  pthread_cond_init(&ring->work, &condition);
  for (uint16_t slot = 0; slot < CU_RING_SLOTS; slot++) ring->free_slots[slot] = slot;
  ring->free_count = CU_RING_SLOTS;
  ring->magic = CU_RING_MAGIC;
  return ring;
}

void cu_ring_remove(struct cu_ring_shared *ring, int fifo) {
  char path[128];
  (void)ring;  // A thread may wait in it still.
  if (!path_of(fifo, path, sizeof path)) unlink(path);
}

void *cu_ring_data(struct cu_ring_shared *ring, uint32_t slot) {
  return (char *)ring + CU_RING_DATA + (size_t)slot * CU_RING_SLOT_BYTES;
}

int cu_ring_take(struct cu_ring_shared *ring, uint64_t deadline, struct cu_ring_item *item) {
  struct timespec until = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};
  int result;
  pthread_mutex_lock(&ring->lock);
  while ((result = cu_ring_pop(&ring->submitted, item))) {
    ring->waiting = 1;
    int ended = deadline == UINT64_MAX ? pthread_cond_wait(&ring->work, &ring->lock)
                                       : pthread_cond_timedwait(&ring->work, &ring->lock, &until);
    ring->waiting = 0;
    if (ended == ETIMEDOUT) {
      result = cu_ring_pop(&ring->submitted, item);
      break;
    }
  }
  pthread_mutex_unlock(&ring->lock);
  return result;
}

// With the lock held.
static void become_ready(struct cu_ring_shared *ring, int fifo) {
  if (ring->ready) return;
  ring->ready = 1;
  cu_set_ready(fifo, 1);
}

void cu_ring_finish(struct cu_ring_shared *ring, int fifo, struct cu_ring_item item, int32_t status, uint32_t length) {
  item.status = status;
  item.length = length;
  pthread_mutex_lock(&ring->lock);
  if (item.kind == CU_RING_BULK && status == 0) *(item.endpoint & 0x80 ? &ring->bytes_in : &ring->bytes_out) += length;
  (void)cu_ring_push(&ring->done, &item);
  become_ready(ring, fifo);
  pthread_mutex_unlock(&ring->lock);
}

void cu_ring_free(struct cu_ring_shared *ring, uint32_t slot) {
  pthread_mutex_lock(&ring->lock);
  if (ring->free_count < CU_RING_SLOTS) ring->free_slots[ring->free_count++] = (uint16_t)slot;
  pthread_mutex_unlock(&ring->lock);
}

void cu_ring_reset(struct cu_ring_shared *ring, int fifo) {
  pthread_mutex_lock(&ring->lock);
  ring->submitted.head = ring->submitted.tail;
  ring->done.head = ring->done.tail;
  for (uint16_t slot = 0; slot < CU_RING_SLOTS; slot++) ring->free_slots[slot] = slot;
  ring->free_count = CU_RING_SLOTS;
  if (ring->ready && !ring->gone) {
    ring->ready = 0;
    cu_set_ready(fifo, 0);
  }
  pthread_mutex_unlock(&ring->lock);
}

void cu_ring_leave(struct cu_ring_shared *ring, int fifo) {
  pthread_mutex_lock(&ring->lock);
  ring->gone = 1;
  become_ready(ring, fifo);
  pthread_mutex_unlock(&ring->lock);
}

uint64_t cu_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void cu_wait_exactly(void) { prctl(PR_SET_TIMERSLACK, 1); }
#endif
