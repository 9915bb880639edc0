#pragma once
#include <libusb.h>

// What of libusb's interface Swift cannot import, or only clumsily.

/// Fills a transfer for a bulk endpoint. No time limit: a phone may be silent for hours.
static inline void cusb_fill_bulk(struct libusb_transfer *transfer, libusb_device_handle *handle,
                                  unsigned char endpoint, unsigned char *buffer, int length,
                                  libusb_transfer_cb_fn callback, void *context) {
  libusb_fill_bulk_transfer(transfer, handle, endpoint, buffer, length, callback, context, 0);
}

/// Fills a transfer for endpoint 0, whose buffer begins with 8 bytes for the request.
static inline void cusb_fill_control(struct libusb_transfer *transfer, libusb_device_handle *handle,
                                     uint8_t type, uint8_t request, uint16_t value, uint16_t index,
                                     uint16_t length, unsigned char *buffer, libusb_transfer_cb_fn callback,
                                     void *context, unsigned milliseconds) {
  libusb_fill_control_setup(buffer, type, request, value, index, length);
  libusb_fill_control_transfer(transfer, handle, buffer, callback, context, milliseconds);
}
