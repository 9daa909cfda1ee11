/* Thinning bounds: upper bounds of a row's change in a proposal, from stored numbers of the row.
 *
 * The position consists of the common effects w, which may enter all rows, and the effects e of one
 * or more factors, one each per row. In units of D_i^(1/3), D_i a bound of its third derivatives, a
 * row departs from the centre by at most x_i = s_i |w| + |sum over f of z_if e_f|. With x' at the
 * other end, and d_i = s_i |w' - w| + |sum of z_if (e_f' - e_f)|, its remainder of order 2 changes
 * by at most
 *
 *     phi_i = min{ (x_i^3 + x_i'^3)/6, d_i max(x_i, x_i')^2/2 },
 *
 * its *thinning bound* (mh_ceiling). */
#include "inside.h"

/* Safety factor of a thinning bound: its excess over 1 is far above relative rounding errors. */
static const double ROUNDING = 1.0 + 1e-10;

double mh_ceiling(const mh_parts *parts, const mh_part_ends *ends, int64_t row)
{
    const int64_t n = parts->n_factors;
    const int32_t *elements = parts->elements + row * n;
    const double *weights = parts->weights + row * n;
    double here = 0.0, there = 0.0, step = 0.0;
    for (int64_t f = 0; f < n; f++) {
        const int64_t g = elements[f];
        if (g < 0)
            continue;
        const double one = ends->here[g], other = ends->there[g];
        const double x = weights[f] * one, y = weights[f] * other, way = weights[f] * (other - one);
        here += parts->is_signed ? x : fabs(x);
        there += parts->is_signed ? y : fabs(y);
        step += parts->is_signed ? way : fabs(way);
    }
    const double s = parts->border[row], *border = ends->border;
    here = s * border[0] + fabs(here);
    there = s * border[1] + fabs(there);
    step = s * border[2] + fabs(step);
    const double most = mh_larger(here, there);
    const double by_ends = (mh_cube(here) + mh_cube(there)) / 6.0;
    return mh_smaller(by_ends, 0.5 * step * most * most) * ROUNDING;
}

void mh_ceilings_of(const mh_parts *parts, const mh_part_ends *ends, double *out)
{
    for (int64_t row = 0; row < parts->n_rows; row++)
        out[row] = mh_ceiling(parts, ends, row);
}

int64_t mh_first_outside(const mh_parts *parts, const mh_part_ends *ends, int64_t row)
{
    const int32_t *elements = parts->elements + row * parts->n_factors;
    for (int64_t f = 0; f < parts->n_factors; f++) {
        const int64_t g = elements[f];
        if (g >= 0 && !mh_is_within(parts, ends, g))
            return g;
    }
    return -1;
}

void mh_fill_running(int64_t n, const int64_t *starts, double *values, double *totals)
{
    for (int64_t g = 0; g < n; g++) {
        double total = 0.0;
        for (int64_t k = starts[g]; k < starts[g + 1]; k++) {
            total += values[k];
            values[k] = total;
        }
        totals[g] = total;
    }
}
