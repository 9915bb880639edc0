#define _GNU_SOURCE
#include "document.h"

#include <stdlib.h>
#include <string.h>

int document_fill(const char *path, const char *name, void (*print)(FILE *)) {
  char begin[64], finish[64];
  snprintf(begin, sizeof begin, "<!-- %s: begin -->\n", name);
  snprintf(finish, sizeof finish, "<!-- %s: end -->\n", name);
  FILE *in = fopen(path, "re");
  if (!in) return perror(path), 1;
  char *text = NULL;
  size_t size = 0;
  ssize_t length = getdelim(&text, &size, 0, in);
  fclose(in);
  char *start = length > 0 ? strstr(text, begin) : NULL, *rest = start ? strstr(start, finish) : NULL;
  FILE *out = rest ? fopen(path, "we") : NULL;
  if (!out) {
    fprintf(stderr, "%s has no place for a table: a line %s", path, begin);
    free(text);
    return 1;
  }
  fwrite(text, 1, (size_t)(start - text) + strlen(begin), out);
  print(out);
  fputs(rest, out);
  free(text);
  return fclose(out) != 0;
}
