#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "textstat.h"

int main(int argc, char **argv)
{
    struct table table = {0};
    int code = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", program_name);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", program_name, TEXTSTAT_VERSION);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        struct counts counts = {0};
        FILE *file = fopen(argv[i], "rb");

        if (!file || count_file(file, &counts) != 0) {
            fprintf(stderr, "%s: %s: %s\n", program_name, argv[i], strerror(errno));
            code = 1;
        } else if (table_add(&table, argv[i], &counts) != 0)
            return 1;
        if (file)
            fclose(file);
    }
    table_print(&table, stdout);
    table_free(&table);
    return code;
}
