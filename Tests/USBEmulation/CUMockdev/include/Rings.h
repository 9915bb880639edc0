// Transfers between a client of usbfs and the emulator through shared memory, in place of a message to umockdev for
// each request. The client's side is a preloaded library (Preload/usb-rings.c), the emulator's is Rings.c.
//
// As with a kernel, a transfer's bytes are copied once between the client's buffer and memory that the "controller"
// reads and writes; everything else (open, claim, select a configuration) still goes through umockdev.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/// The environment variable with the start of the paths of the shared memory; the node's inode number follows.
#define CU_RINGS "USB_RINGS"

enum {
  CU_RING_SIZE = 256,
  CU_RING_SLOTS = 128,
  CU_RING_SLOT_BYTES = 65536,
  CU_RING_MAGIC = 0x52494e47,
};

enum cu_ring_kind { CU_RING_BULK, CU_RING_CONTROL, CU_RING_DISCARD };

struct cu_ring_item {
  /// The request block's address in the client.
  uint64_t address;
  /// When it was submitted, in nanoseconds of CLOCK_MONOTONIC.
  uint64_t time;
  uint32_t slot;
  uint32_t length;
  /// Of a finished one: 0 or a negative errno.
  int32_t status;
  uint8_t kind;
  uint8_t endpoint;
  uint8_t needs_zero_packet;
};

struct cu_ring_queue {
  uint32_t head, tail;
  struct cu_ring_item items[CU_RING_SIZE];
};

/// What lies in shared memory, followed by the slots.
struct cu_ring_shared {
  uint32_t magic;
  /// The device is gone: nothing can be submitted.
  uint32_t gone;
  /// Whether the node polls as writable, which says that there is something to reap.
  uint32_t ready;
  /// Whether the emulator waits for `work`.
  uint32_t waiting;
  pthread_mutex_t lock;
  pthread_cond_t work;
  struct cu_ring_queue submitted, done;
  uint32_t free_count;
  uint16_t free_slots[CU_RING_SLOTS];
  /// Bytes that went over the "bus", headers included; read by benchmarks.
  uint64_t bytes_in, bytes_out;
};

#define CU_RING_BYTES (CU_RING_DATA + (size_t)CU_RING_SLOTS * CU_RING_SLOT_BYTES)
#define CU_RING_DATA (((sizeof(struct cu_ring_shared) + 4095) / 4096) * 4096)

static inline int cu_ring_push(struct cu_ring_queue *queue, const struct cu_ring_item *item) {
  if (queue->tail - queue->head == CU_RING_SIZE) return -1;
  queue->items[queue->tail++ % CU_RING_SIZE] = *item;
  return 0;
}

static inline int cu_ring_pop(struct cu_ring_queue *queue, struct cu_ring_item *item) {
  if (queue->tail == queue->head) return -1;
  *item = queue->items[queue->head++ % CU_RING_SIZE];
  return 0;
}

// The emulator's side.

/// Where the shared memory of this process' devices is; sets CU_RINGS for its children.
void cu_rings_begin(void);
/// Makes the shared memory for the node behind `fifo`; NULL when there is none.
struct cu_ring_shared *cu_ring_create(int fifo);
void cu_ring_remove(struct cu_ring_shared *ring, int fifo);
/// Takes what was submitted next, waiting for it until `deadline` (nanoseconds, UINT64_MAX: for ever). 0, or -1.
int cu_ring_take(struct cu_ring_shared *ring, uint64_t deadline, struct cu_ring_item *item);
/// A slot's bytes.
void *cu_ring_data(struct cu_ring_shared *ring, uint32_t slot);
/// Lets the client reap a transfer, of which `length` bytes were moved. The client frees the slot of one from the
/// device, the emulator that of one to the device.
void cu_ring_finish(struct cu_ring_shared *ring, int fifo, struct cu_ring_item item, int32_t status, uint32_t length);
void cu_ring_free(struct cu_ring_shared *ring, uint32_t slot);
/// Forgets everything: another opening of the node begins.
void cu_ring_reset(struct cu_ring_shared *ring, int fifo);
/// The device is gone.
void cu_ring_leave(struct cu_ring_shared *ring, int fifo);
/// Nanoseconds of CLOCK_MONOTONIC.
uint64_t cu_now(void);
/// Lets the calling thread's waits end when they are to, and not 50 us later.
void cu_wait_exactly(void);
