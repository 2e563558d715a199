#ifndef TEXTSTAT_H
#define TEXTSTAT_H

#include "count.h"
#include "table.h"

#define TEXTSTAT_VERSION "1.4"

/* How the program is called in its messages. */
const char *program_name = "textstat";

#endif
