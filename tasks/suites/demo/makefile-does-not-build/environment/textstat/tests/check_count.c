/* Counts a few texts and compares; exits with the number of differences. */

#include <math.h>
#include <stdio.h>

#include "count.h"

static int differences;

static void check(const char *text, unsigned long lines, unsigned long words, double mean)
{
    struct counts counts = {0};
    FILE *file = tmpfile();

    fputs(text, file);
    rewind(file);
    count_file(file, &counts);
    fclose(file);
    if (counts.lines != lines || counts.words != words || fabs(mean_length(&counts) - mean) > 1e-9) {
        fprintf(stderr, "wrong: %lu lines, %lu words in \"%s\"\n", counts.lines, counts.words, text);
        differences++;
    }
}

int main(void)
{
    check("", 0, 0, 0);
    check("\n\n", 2, 0, 0);
    check("one", 0, 1, 3);
    check("one two\tthree\n", 1, 3, 11.0 / 3);
    check("  a\v\fb\r\n c ", 1, 3, 1);
    if (!differences)
        puts("all counts are right");
    return differences;
}
