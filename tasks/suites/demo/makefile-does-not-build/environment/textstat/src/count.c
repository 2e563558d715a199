#include "count.h"

#include <math.h>

static int is_blank(int byte)
{
    static const char blanks[] = " \t\n\v\f\r";

    for (int i = 0; i < sizeof blanks - 1; i++)
        if (byte == blanks[i])
            return 1;
    return 0;
}

static void end_word(struct counts *counts, unsigned long length)
{
    counts->words++;
    counts->length_sum += (double)length;
    counts->length_square_sum += (double)length * (double)length;
}

int count_file(FILE *file, struct counts *counts)
{
    unsigned long length = 0;
    int byte;

    while ((byte = getc(file)) != EOF) {
        counts->bytes++;
        if (byte == '\n')
            counts->lines++;
        if (!is_blank(byte))
            length++;
        else if (length) {
            end_word(counts, length);
            length = 0;
        }
    }
    if (length)
        end_word(counts, length);
    return ferror(file) ? -1 : 0;
}

void add_counts(struct counts *sum, const struct counts *counts)
{
    sum->lines += counts->lines;
    sum->words += counts->words;
    sum->bytes += counts->bytes;
    sum->length_sum += counts->length_sum;
    sum->length_square_sum += counts->length_square_sum;
}

double mean_length(const struct counts *counts)
{
    return counts->words ? counts->length_sum / counts->words : 0;
}

double length_deviation(const struct counts *counts)
{
    double mean = mean_length(counts);
    double variance = 0;

    if (counts->words)
        variance = counts->length_square_sum / counts->words - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}
