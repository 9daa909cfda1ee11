/* Envelopes of densities exp g on the line, for rejection, from values and slopes of g at points.
 *
 * Between neighbouring points x < x' with g'' <= K, K >= 0,
 *
 *     g(z) <= g(x) + g'(x) (z - x) + K (z - x)^2 / 2,   and likewise from x'.
 *
 * The two parabolas cross once, and chords bound them on both sides of the crossing. They are
 * tangents if g is concave: Gilks, Wild (1992), doi:10.2307/2347565; else chords: Gorur, Teh (2011),
 * doi:10.1198/jcgs.2011.09058. A proposal that was rejected may become a point. */
#include "envelope.h"

static const double MIN_EXPONENT = 1e-12; /* below, a chord is as good as level */

void mh_insert_point(mh_envelope *envelope, mh_point at)
{
    mh_point *to = envelope->points + envelope->n_points++;
    for (; to > envelope->points && to[-1].z > at.z; to--)
        *to = to[-1];
    at.curvature = to > envelope->points ? to[-1].curvature : 0.0;
    *to = at;
}

/* Add a chord between two places with logarithms of the envelope there. */
static void add_chord(mh_envelope *out, double low, double low_value, double high,
                      double high_value)
{
    const double length = high - low, fall = fabs(high_value - low_value);
    const int falls = low_value > high_value;
    if (length > 0.0)
        out->spans[out->n_spans++] = (mh_span){
            .start = falls ? low : high, .side = falls ? 1.0 : -1.0, .length = length,
            .height = falls ? low_value : high_value, .rate = fall / length};
}

/* Add the chords between two points. */
static void add_cell(mh_envelope *out, const mh_point *low, const mh_point *high)
{
    const double width = high->z - low->z, half = 0.5 * low->curvature;
    const double turn = low->slope - high->slope + 2.0 * half * width;
    const double rise = high->value - low->value + (half * width - high->slope) * width;
    const double part = rise / turn > 0.0 ? mh_smaller(rise / turn, width) : 0.5 * width;
    const double rest = width - part, crossing = low->z + part;
    add_chord(out, low->z, low->value, crossing, low->value + part * (low->slope + half * part));
    add_chord(out, crossing, high->value + rest * (half * rest - high->slope), high->z,
              high->value);
}

double mh_width_of_fall(double rate, double length)
{
    const double fall = rate * length;
    return fall > MIN_EXPONENT ? -expm1(-fall) / rate : length;
}

double mh_quantile_of_fall(double rate, double length, double u)
{
    const double fall = rate * length;
    return fall > MIN_EXPONENT ? -log1p(u * expm1(-fall)) / rate : u * length;
}

mh_status mh_build_envelope(mh_envelope *envelope, const mh_span *tails)
{
    double top = -INFINITY;
    envelope->n_spans = 0;
    envelope->total = 0.0;
    for (int64_t k = 0; k + 1 < envelope->n_points; k++)
        add_cell(envelope, envelope->points + k, envelope->points + k + 1);
    for (int64_t k = 0; k < 2; k++)
        envelope->spans[envelope->n_spans++] = tails[k];
    for (int64_t k = 0; k < envelope->n_spans; k++)
        top = mh_larger(top, envelope->spans[k].height);
    for (int64_t k = 0; k < envelope->n_spans; k++) {
        mh_span *at = envelope->spans + k;
        const double width = at->power > 0.0 ? fabs(at->start) / at->power
                                             : mh_width_of_fall(at->rate, at->length);
        at->mass = width * exp(at->height - top);
        envelope->total += at->mass;
    }
    return envelope->total > 0.0 && isfinite(envelope->total) ? MH_OK : MH_NO_ENVELOPE;
}

double mh_draw_below(const mh_envelope *envelope, const mh_generator *rng, double *height)
{
    const double u = mh_uniform(rng);
    double rest = mh_uniform(rng) * envelope->total;
    const mh_span *at = envelope->spans, *last = at + envelope->n_spans - 1;
    while (at < last && rest >= at->mass)
        rest -= at++->mass;
    if (at->power > 0.0) {
        const double times = pow(1.0 - u, -1.0 / at->power);
        *height = at->height - (at->power + 1.0) * log(times);
        return at->start * times;
    }
    const double distance = mh_quantile_of_fall(at->rate, at->length, u);
    *height = at->height - at->rate * distance;
    return at->start + at->side * distance;
}
