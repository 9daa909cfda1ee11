/* Values that a loader checks: sizes of the library's records, and the digest of its sources. */
#include "inside.h"

#ifndef MH_DIGEST
#define MH_DIGEST unknown
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifndef MH_RECORDS /* LAYOUT(...) of each record of the headers: see compiler.py */
#define MH_RECORDS
#endif
#define LAYOUT(record) {#record, sizeof(record)},

const mh_layout *mh_layouts(void)
{
    static const mh_layout all[] = {MH_RECORDS {NULL, 0}};
    return all;
}

const char *mh_digest(void) { return TEXT(MH_DIGEST); }
