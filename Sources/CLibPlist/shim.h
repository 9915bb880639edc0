// What this package uses of libplist, the same for 2.2 and for 2.3 to 2.7: the enumeration was
// renamed and the return types changed in between, and these functions take no notice of either.
#pragma once

#include <plist/plist.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/// What a node holds. `propertylist_kind_other` is a date, a UID, a null, or nothing at all.
enum propertylist_kind {
  propertylist_kind_other,
  propertylist_kind_boolean,
  propertylist_kind_integer,
  propertylist_kind_real,
  propertylist_kind_string,
  propertylist_kind_data,
  propertylist_kind_array,
  propertylist_kind_dictionary,
};

static inline enum propertylist_kind propertylist_kind_of(void *node) {
  if (node == NULL) return propertylist_kind_other;
  switch (plist_get_node_type(node)) {
    case PLIST_BOOLEAN: return propertylist_kind_boolean;
    case PLIST_UINT: return propertylist_kind_integer;  // 2.3 and later: a macro for PLIST_INT
    case PLIST_REAL: return propertylist_kind_real;
    case PLIST_STRING: return propertylist_kind_string;
    case PLIST_DATA: return propertylist_kind_data;
    case PLIST_ARRAY: return propertylist_kind_array;
    case PLIST_DICT: return propertylist_kind_dictionary;
    default: return propertylist_kind_other;
  }
}

// Reading. NULL when the library finds no property list in the bytes.

static inline void *propertylist_from_xml(const char *bytes, uint32_t count) {
  plist_t root = NULL;
  (void)plist_from_xml(bytes, count, &root);
  return root;
}

static inline void *propertylist_from_binary(const char *bytes, uint32_t count) {
  plist_t root = NULL;
  (void)plist_from_bin(bytes, count, &root);
  return root;
}

static inline void propertylist_free(void *root) { plist_free(root); }

static inline bool propertylist_boolean(void *node) {
  uint8_t value = 0;
  plist_get_bool_val(node, &value);
  return value != 0;
}

/// The 64 bits of an integer. libplist 2.2 does not say whether they are signed.
static inline uint64_t propertylist_integer(void *node) {
  uint64_t value = 0;
  plist_get_uint_val(node, &value);
  return value;
}

static inline double propertylist_real(void *node) {
  double value = 0;
  plist_get_real_val(node, &value);
  return value;
}

/// The node's own bytes, alive as long as the node is.
static inline const char *propertylist_string(void *node, uint64_t *count) {
  *count = 0;
  return plist_get_string_ptr(node, count);
}

/// The node's own bytes, alive as long as the node is.
static inline const char *propertylist_data(void *node, uint64_t *count) {
  *count = 0;
  return plist_get_data_ptr(node, count);
}

/// A walk over the children of an array or a dictionary. `current` is NULL at the end.
struct propertylist_walk {
  void *container;
  void *iterator;
  void *current;
  char *key;
  bool is_dictionary;
};

static inline void propertylist_walk_next(struct propertylist_walk *walk) {
  free(walk->key);
  walk->key = NULL;
  walk->current = NULL;
  if (walk->iterator == NULL) return;
  if (walk->is_dictionary) {
    plist_dict_next_item(walk->container, walk->iterator, &walk->key, &walk->current);
  } else {
    plist_array_next_item(walk->container, walk->iterator, &walk->current);
  }
}

static inline struct propertylist_walk propertylist_walk_start(void *container) {
  struct propertylist_walk walk = {container, NULL, NULL, NULL, false};
  walk.is_dictionary = propertylist_kind_of(container) == propertylist_kind_dictionary;
  if (walk.is_dictionary) {
    plist_dict_new_iter(container, &walk.iterator);
  } else {
    plist_array_new_iter(container, &walk.iterator);
  }
  propertylist_walk_next(&walk);
  return walk;
}

static inline void propertylist_walk_end(struct propertylist_walk *walk) {
  free(walk->key);
  free(walk->iterator);
  walk->key = NULL;
  walk->iterator = NULL;
  walk->current = NULL;
}

// Writing. A container owns what is put into it.

static inline void *propertylist_new_dictionary(void) { return plist_new_dict(); }
static inline void *propertylist_new_array(void) { return plist_new_array(); }
static inline void *propertylist_new_boolean(bool value) { return plist_new_bool(value ? 1 : 0); }
static inline void *propertylist_new_real(double value) { return plist_new_real(value); }
static inline void *propertylist_new_string(const char *value) { return plist_new_string(value); }

static inline void *propertylist_new_integer(int64_t value) {
#ifdef PLIST_UINT  // 2.3 and later, where an unsigned node of a negative number prints 20 digits
  return plist_new_int(value);
#else  // 2.2, where 8 bytes always print as signed
  return plist_new_uint((uint64_t)value);
#endif
}

static inline void *propertylist_new_data(const uint8_t *bytes, uint64_t count) {
  return plist_new_data((const char *)bytes, count);
}

static inline void propertylist_append(void *array, void *item) { plist_array_append_item(array, item); }

static inline void propertylist_set(void *dictionary, const char *key, void *item) {
  plist_dict_set_item(dictionary, key, item);
}

/// XML text in memory that `free` gives back, or NULL.
static inline char *propertylist_to_xml(void *root, uint32_t *count) {
  char *text = NULL;
  *count = 0;
  (void)plist_to_xml(root, &text, count);
  return text;
}

/// Bytes in memory that `free` gives back, or NULL.
static inline char *propertylist_to_binary(void *root, uint32_t *count) {
  char *bytes = NULL;
  *count = 0;
  (void)plist_to_bin(root, &bytes, count);
  return bytes;
}
