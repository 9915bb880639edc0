// What the USB emulator needs of libumockdev, which is loaded when it runs: building needs no header of it.
#pragma once

#include "Rings.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// A request on an emulated node. `argument` is the third argument of ioctl: an address in the client, mostly.
/// `file` tells one opening of the node from another. Returns what ioctl returns, or a negative errno. Called on
/// umockdev's thread.
typedef long (*cu_request)(void *context, uintptr_t file, unsigned long request, uint64_t argument);
/// The client has closed the node. Called on umockdev's thread, perhaps after the next opening.
typedef void (*cu_closed)(void *context, uintptr_t file);

/// Makes the bed in which all devices are. 0, or -1 with a text in `error`. Once in a process.
int cu_start(const char **error);
/// The directory under which the emulated /sys and /dev are.
const char *cu_root(void);
/// Answers requests on a node (/dev/bus/usb/001/002). Before the device is added.
int cu_attach(const char *node, cu_request request, cu_closed closed, void *context);
void cu_detach(const char *node);
/// Adds devices as umockdev-record describes them, and sends their uevents.
int cu_add(const char *description);
void cu_set_property(const char *path, const char *name, const char *value);
void cu_set_attribute(const char *path, const char *name, const char *value);
void cu_uevent(const char *path, const char *action);
void cu_remove(const char *path);

/// A FIFO in place of the node; returns a descriptor of it.
int cu_make_fifo(const char *path);
/// Makes the FIFO writable (`ready`) or not.
void cu_set_ready(int fifo, int ready);

/// The client's memory. 0 or -1.
int cu_read_memory(int64_t process, uint64_t address, void *bytes, size_t count);
int cu_write_memory(int64_t process, uint64_t address, const void *bytes, size_t count);

/// struct usbdevfs_urb, as far as it matters.
struct cu_urb {
  uint8_t type;
  uint8_t endpoint;
  uint32_t flags;
  uint64_t buffer;
  int32_t length;
};
int cu_read_urb(int64_t process, uint64_t address, struct cu_urb *urb);
int cu_finish_urb(int64_t process, uint64_t address, int32_t status, int32_t actual_length);

enum {
  CU_TYPE_CONTROL = 2,
  CU_TYPE_BULK = 3,
  CU_URB_ZERO_PACKET = 0x40,
};
/// Which request it is, whatever its number.
enum cu_kind {
  CU_OTHER,
  CU_CAPABILITIES,
  CU_CLAIM,
  CU_RELEASE,
  CU_SET_CONFIGURATION,
  CU_GET_DRIVER,
  CU_DRIVER_REQUEST,
  CU_SUBMIT,
  CU_DISCARD,
  CU_REAP,
  CU_RESET,
  CU_CLEAR_HALT,
};
enum cu_kind cu_kind_of(unsigned long request);

/// Sockets and processes for the emulator's own control.
int cu_listen(const char *path);
int64_t cu_spawn(char *const arguments[]);
