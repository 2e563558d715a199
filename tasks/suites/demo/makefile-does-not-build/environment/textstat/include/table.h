#ifndef TABLE_H
#define TABLE_H

#include <stdio.h>

#include "count.h"

struct row {
    char *name;
    struct counts counts;
};

struct table {
    struct row *rows;
    size_t used;
    size_t size;
};

/* Add a row; the name is copied. Returns 0, or -1 where there is no memory. */
int table_add(struct table *table, const char *name, const struct counts *counts);

/* Print all rows, and their sum where there are several. */
void table_print(const struct table *table, FILE *out);

void table_free(struct table *table);

#endif
