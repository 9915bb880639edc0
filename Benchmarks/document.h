#pragma once
#include <stdio.h>

// Puts what `print` writes between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a document; not 0 when
// that fails.
int document_fill(const char *path, const char *name, void (*print)(FILE *));
