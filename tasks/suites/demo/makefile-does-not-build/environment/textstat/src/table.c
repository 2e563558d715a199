#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "textstat.h"

int table_add(struct table *table, const char *name, const struct counts *counts)
{
    struct row *row;

    if (table->used == table->size) {
        size_t size = table->size ? 2 * table->size : 8;
        struct row *rows = realloc(table->rows, size * sizeof *rows);

        if (!rows) {
            fprintf(stderr, "%s: out of memory\n", program_name);
            return -1;
        }
        table->rows = rows;
        table->size = size;
    }
    row = &table->rows[table->used];
    row->name = strdup(name);
    if (!row->name)
        return -1;
    row->counts = *counts;
    table->used++;
    return 0;
}

static void print_row(FILE *out, const char *name, const struct counts *counts, int width)
{
    fprintf(out, "lines=%lu words=%lu bytes=%lu mean=%.2f deviation=%.2f %s\n", counts->lines,
            counts->words, counts->bytes, mean_length(counts), length_deviation(counts), name);
}

void table_print(const struct table *table, FILE *out)
{
    struct counts sum = {0};

    for (size_t i = 0; i < table->used; i++) {
        print_row(out, table->rows[i].name, &table->rows[i].counts, 0);
        add_counts(&sum, &table->rows[i].counts);
    }
    if (table->used > 1)
        print_row(out, "total", &sum, 0);
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->used; i++)
        free(table->rows[i].name);
    free(table->rows);
}
