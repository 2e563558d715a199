#ifndef COUNT_H
#define COUNT_H

#include <stdio.h>

struct counts {
    unsigned long lines;
    unsigned long words;
    unsigned long bytes;
    double length_sum;         /* of the words' lengths, in bytes */
    double length_square_sum;
};

/* Count what is left in a file. Returns 0, or -1 where reading failed. */
int count_file(FILE *file, struct counts *counts);

/* Add the counts of one file to those of several. */
void add_counts(struct counts *sum, const struct counts *counts);

/* Mean and standard deviation of the words' lengths; 0 without words. */
double mean_length(const struct counts *counts);
double length_deviation(const struct counts *counts);

#endif
