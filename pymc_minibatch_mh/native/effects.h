/* Declarations that the files on draws of effects share: the rows of a group as functions of them. */
#ifndef MH_EFFECTS_H
#define MH_EFFECTS_H

#include "envelope.h"
#include "groups.h"

enum { MH_MAX_TRIALS = 10000 };

typedef struct mh_effect_rows { /* rows of a term in a group */
    const mh_term *term;
    int64_t n, width;
    const double *lines; /* predictors at z = 0, derivatives in each z, leaves, (n, width) */
} mh_effect_rows;

typedef struct mh_drawing {
    const mh_groups *groups;
    const mh_effect_law *law;
    const mh_generator *rng;
    double *vectors; /* position with the effects at z = 0, derivatives in each z, (1 + q, d + q) */
    mh_effect_rows *terms;
    double *inputs, *outputs; /* of the row functions */
    mh_envelope envelope;     /* of one effect */
} mh_drawing;

/* Sum over the rows of a group, and derivatives in one or two effects: bends have lower triangles. */
typedef struct mh_row_sum {
    double value, slope[2], bend[3];
} mh_row_sum;

/* Sum over the rows at effects z, with derivatives if they are wanted. */
mh_row_sum mh_rows_at(const mh_drawing *on, const double *z, int wants_slopes);
/* Whether a density that is `value` contradicts its bound, by more than errors of rounding. */
int mh_is_above(double value, double bound);
/* Draw two effects of a group. */
mh_status mh_draw_in_plane(const mh_drawing *on, int64_t g, double *effects, int64_t *trials,
                           mh_arena *scratch);
#endif
