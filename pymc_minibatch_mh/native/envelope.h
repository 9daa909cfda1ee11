/* Declarations of envelopes of densities on the line: envelope.c. */
#ifndef MH_ENVELOPE_H
#define MH_ENVELOPE_H

#include "inside.h"

enum { MH_POINTS = 128 }; /* maximum number of points */

/* A log-density g and its derivatives at z, and the bound K of g'' from there to the next point. */
typedef struct mh_point {
    double z, value, slope, bend, curvature;
} mh_point;

/* A span of the envelope, for `length` upwards (side 1) or downwards (side -1) from its start. At
 * distance d its logarithm is height - rate d; or, with a power, height - (power + 1) log(z / start). */
typedef struct mh_span {
    double start, side, length, height, rate, power, mass;
} mh_span;

typedef struct mh_envelope {
    int64_t n_points, n_spans;
    mh_point points[MH_POINTS]; /* ascending */
    mh_span spans[2 * MH_POINTS];
    double total; /* sum of the masses, which are relative to the largest height */
} mh_envelope;

/* Insert a point; between other points, the bound of the cell that it divides holds on both sides. */
void mh_insert_point(mh_envelope *envelope, mh_point at);
/* Build the envelope from points and tails: below the first point, and above the last. */
mh_status mh_build_envelope(mh_envelope *envelope, const mh_span *tails);
/* Draw from the envelope, and write its logarithm there. */
double mh_draw_below(const mh_envelope *envelope, const mh_generator *rng, double *height);
/* Integral of exp(-rate d) over distances d up to a length, and its quantile u. */
double mh_width_of_fall(double rate, double length);
double mh_quantile_of_fall(double rate, double length, double u);
#endif
