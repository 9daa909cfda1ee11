/* A normal distribution of effects given their scales, and a distribution of the scales.
 *
 * In a hierarchy the effects of groups are nearly normal given their scale tau, with a precision
 * and a mean that depend on it, but not jointly with log tau. Here variables z, one per scale, are
 * monotone functions of standard normal variables u; scales are phi = phi_0 + A z, and the other
 * coordinates are x = m(z) + W(z)^-1 w with standard normal numbers w and W lower triangular. All
 * of this can be inverted, so that the density of any position is known.
 *
 * The functions are tables with linear interpolation between knots; the contributions of several z
 * are added. W is exp(D) U with D diagonal, and U with ones on its diagonal, so that it is always
 * invertible. Where a scale is small, an effect and its mean have large entries of W: their ratio, an
 * entry of U, is interpolated well, and the effect stays at its mean between knots.
 *
 * Coordinates that may be at their bound 0 are in no table: they are c + L v, with normal numbers v
 * that are truncated where these coordinates are 0 (mixture.c), and shift all others by C v. */
#include "inside.h"

/* Workspace: z, m(z), x - m(z) and the entries of D(z) and U(z). */
typedef struct workspace {
    double *points, *mean, *way, *whitener;
} workspace;

static mh_status take_workspace(const mh_scale_conditional *tables, workspace *out,
                                mh_arena *scratch)
{
    const int64_t count = tables->n_scales, size = tables->n_rest;
    const int64_t packed = size * (size + 1) / 2;
    MH_VECTOR(double, all, scratch, count + 2 * size + packed);
    *out = (workspace){all, all + count, all + count + size, all + count + 2 * size};
    return MH_OK;
}

/* Map u to z, and write log dz/du; slopes are linear between knots and constant beyond them. */
static double point_at(const mh_scale_conditional *tables, int64_t k, double normal,
                       double *log_slope)
{
    const int64_t last = tables->n_normal_knots - 1;
    const double *points = tables->points + k * (last + 1);
    const double *slopes = tables->slopes + k * (last + 1);
    double away = normal - tables->first_normal;
    if (!(away > 0.0)) {
        *log_slope = log(slopes[0]);
        return points[0] + slopes[0] * away;
    }
    const int64_t j = (int64_t)mh_smaller(away / tables->normal_gap, (double)last);
    away -= (double)j * tables->normal_gap;
    if (j == last) {
        *log_slope = log(slopes[last]);
        return points[last] + slopes[last] * away;
    }
    const double bend = (slopes[j + 1] - slopes[j]) / tables->normal_gap;
    const double slope = slopes[j] + bend * away;
    *log_slope = log(slope);
    return points[j] + 0.5 * (slopes[j] + slope) * away;
}

/* Map z to u, and write log dz/du: the inverse of point_at. */
static double normal_at(const mh_scale_conditional *tables, int64_t k, double point,
                        double *log_slope)
{
    const int64_t last = tables->n_normal_knots - 1;
    const double *points = tables->points + k * (last + 1);
    const double *slopes = tables->slopes + k * (last + 1);
    if (!(point > points[0])) {
        *log_slope = log(slopes[0]);
        return tables->first_normal + (point - points[0]) / slopes[0];
    }
    int64_t low = 0, high = last + 1;
    MH_BISECT(low, high, point > points[middle])
    const double way = point - points[low];
    const double start = tables->first_normal + (double)low * tables->normal_gap;
    if (low == last) {
        *log_slope = log(slopes[last]);
        return start + way / slopes[last];
    }
    const double bend = (slopes[low + 1] - slopes[low]) / tables->normal_gap;
    const double slope = sqrt(mh_larger(slopes[low] * slopes[low] + 2.0 * bend * way, 0.0));
    *log_slope = log(slope);
    return start + 2.0 * way / (slopes[low] + slope);
}

/* Add a row of a table, interpolated linearly between two knots. */
static void add_between(const double *lines, int64_t knot, double share, int64_t size, double *out)
{
    const double *first = lines + knot * size, *second = first + size;
    for (int64_t i = 0; i < size; i++)
        out[i] += (1.0 - share) * first[i] + share * second[i];
}

/* Write m and U for given z, with exp(D) in the place of the diagonal of U; return log |W|. */
static double set_up(const mh_scale_conditional *tables, const workspace *work)
{
    const int64_t last = tables->n_knots - 1, size = tables->n_rest;
    const int64_t packed = size * (size + 1) / 2;
    mh_copy_to(work->mean, tables->mean, size);
    mh_copy_to(work->whitener, tables->whitener, packed);
    for (int64_t k = 0; k < tables->n_scales; k++) {
        double place = (work->points[k] - tables->first_knot) / tables->knot_gap;
        place = mh_smaller(mh_larger(0.0, place), (double)last); /* 0 if it is NaN */
        const int64_t knot = mh_min((int64_t)place, last - 1);
        const double share = place - (double)knot;
        add_between(tables->means + k * (last + 1) * size, knot, share, size, work->mean);
        add_between(tables->whiteners + k * (last + 1) * packed, knot, share, packed,
                    work->whitener);
    }
    double log_volume = 0.0;
    for (int64_t i = 0; i < size; i++) {
        double *diagonal = work->whitener + i * (i + 1) / 2 + i;
        log_volume += *diagonal;
        *diagonal = exp(*diagonal);
    }
    return log_volume;
}

/* How far a coordinate is moved by the numbers v of truncated ones. */
static double shift_of(const mh_truncated *truncated, int64_t coordinate, const double *numbers)
{
    if (!truncated)
        return 0.0;
    const int64_t count = truncated->n_places;
    return mh_inner(truncated->shifts + coordinate * count, numbers, count);
}

static void whiten_truncated(const mh_truncated *truncated, const double *position, double *numbers)
{
    const int64_t count = truncated ? truncated->n_places : 0;
    for (int64_t i = 0; i < count; i++) {
        const double *line = truncated->factor + i * count;
        const double away = position[truncated->places[i]] - truncated->centre[i];
        numbers[i] = (away - mh_inner(line, numbers, i)) / line[i];
    }
}

static void place_truncated(const mh_truncated *truncated, const double *numbers, double *position)
{
    const int64_t count = truncated ? truncated->n_places : 0;
    for (int64_t i = 0; i < count; i++) {
        const double *line = truncated->factor + i * count;
        position[truncated->places[i]] = truncated->centre[i] + mh_inner(line, numbers, i + 1);
    }
}

/* Whiten a position to (u, w, v): its density is standard normal in (u, w), times that of v and
 * exp(log_volume). */
mh_status mh_whiten_given_scales(const mh_scale_conditional *tables, const double *position,
                                 double *white, double *log_volume, mh_arena *scratch)
{
    const int64_t count = tables->n_scales, size = tables->n_rest;
    const mh_truncated *truncated = tables->truncated;
    double *numbers = white + count + size;
    workspace work;
    MH_TRY(take_workspace(tables, &work, scratch));
    whiten_truncated(truncated, position, numbers);
    double total = 0.0, log_slope;
    for (int64_t k = 0; k < count; k++) {
        work.points[k] = 0.0;
        for (int64_t j = 0; j < count; j++) {
            const int64_t place = tables->scales[j];
            const double shift = shift_of(truncated, place, numbers);
            const double scale = position[place] - shift - tables->middle[j];
            work.points[k] += tables->narrow[k * count + j] * scale;
        }
        white[k] = normal_at(tables, k, work.points[k], &log_slope);
        total -= log_slope;
    }
    total += set_up(tables, &work);
    for (int64_t i = 0; i < size; i++)
        work.way[i] = position[tables->rest[i]] -
                      shift_of(truncated, tables->rest[i], numbers) - work.mean[i];
    for (int64_t i = 0; i < size; i++) {
        const double *line = work.whitener + i * (i + 1) / 2;
        white[count + i] = line[i] * (work.way[i] + mh_inner(line, work.way, i));
    }
    *log_volume = total;
    return MH_OK;
}

mh_status mh_place_given_scales(const mh_scale_conditional *tables, const double *white,
                                double *position, double *log_volume, mh_arena *scratch)
{
    const int64_t count = tables->n_scales, size = tables->n_rest;
    const mh_truncated *truncated = tables->truncated;
    const double *numbers = white + count + size;
    workspace work;
    MH_TRY(take_workspace(tables, &work, scratch));
    double total = 0.0, log_slope;
    for (int64_t k = 0; k < count; k++) {
        work.points[k] = point_at(tables, k, white[k], &log_slope);
        total -= log_slope;
    }
    for (int64_t k = 0; k < count; k++) {
        double scale = tables->middle[k];
        for (int64_t j = 0; j < count; j++)
            scale += tables->spread[k * count + j] * work.points[j];
        position[tables->scales[k]] = scale + shift_of(truncated, tables->scales[k], numbers);
    }
    total += set_up(tables, &work);
    for (int64_t i = 0; i < size; i++) {
        const double *line = work.whitener + i * (i + 1) / 2;
        work.way[i] = white[count + i] / line[i] - mh_inner(line, work.way, i);
        position[tables->rest[i]] =
            work.mean[i] + work.way[i] + shift_of(truncated, tables->rest[i], numbers);
    }
    place_truncated(truncated, numbers, position);
    *log_volume = total;
    return MH_OK;
}
