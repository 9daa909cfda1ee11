/* Exact draws of the effects of groups given all other parameters, by rejection from envelopes.
 *
 * Standardised effects z have the density exp g up to a factor, with
 *
 *     g(z) = log p_0(z) + sum over the group's rows of f_i,   p_0 the law of z.
 *
 * This file draws one effect; effects_plane.c draws two. If g is concave, an envelope has points around
 * the mode, and tangents as tails. Otherwise it has the ends of cells as points, and tails by bounds on
 * the rows: see mh_effect_law. */
#include "effects.h"

enum { MAX_STEPS = 100, ROWS_AT_ONCE = 1024 };
/* In standard deviations: distance of outer points from the mode, and of a point that counts as the
 * mode; minimum slope of outer points times that distance; minimum curvature at a mode. */
static const double OUTER = 1.25, NEAR = 0.5, MIN_SLOPE = 0.5, MIN_CURVATURE = 1e-4;
/* Error of rounding by which a density may exceed its envelope: absolute and relative. */
static const double SLACK = 1e-6, RELATIVE_SLACK = 1e-9;

/* ---- The density. ---- */

static void add_law(const mh_effect_law *law, double z, mh_point *out)
{
    if (law->kind == MH_NORMAL_LAW) {
        out->value -= 0.5 * z * z;
        out->slope -= z;
        out->bend -= 1.0;
    } else if (law->kind == MH_LOGISTIC_LAW) {
        const double slope = -tanh(0.5 * z);
        out->value -= fabs(z) + 2.0 * log1p(exp(-fabs(z)));
        out->slope += slope;
        out->bend -= 0.5 * (1.0 - slope * slope);
    } else {
        const double nu = law->shape, sum = nu + z * z;
        out->value -= 0.5 * (nu + 1.0) * log1p(z * z / nu);
        out->slope -= (nu + 1.0) * z / sum;
        out->bend += (nu + 1.0) * (z * z - nu) / (sum * sum);
    }
}

static double draw_from_law(const mh_effect_law *law, const mh_generator *rng)
{
    if (law->kind == MH_LOGISTIC_LAW) {
        const double first = rng->standard_exponential(rng->bits);
        return log(first / rng->standard_exponential(rng->bits));
    }
    const double normal = mh_normal(rng), half = 0.5 * law->shape;
    if (law->kind == MH_NORMAL_LAW)
        return normal;
    return normal / sqrt(rng->standard_gamma(rng->bits, half) / half);
}

static void write_inputs(const mh_effect_rows *rows, const double *z, int64_t n_effects,
                         double *inputs)
{
    const int64_t m = rows->term->n_arguments;
    const double *line = rows->lines;
    for (int64_t i = 0; i < rows->n; i++, line += rows->width) {
        for (int64_t a = 0; a < m; a++, inputs++) {
            *inputs = line[a];
            for (int64_t k = 0; k < n_effects; k++)
                *inputs += line[(1 + k) * m + a] * z[k];
        }
        for (int64_t k = (1 + n_effects) * m; k < rows->width; k++)
            *inputs++ = line[k];
    }
}

/* Add second derivatives f_ab of a row in its predictors, from the lines of derivatives in z. */
static void add_bends(const double *units, int64_t m, int64_t n_effects, const double *seconds,
                      double *bend)
{
    for (int64_t a = 0; a < m; a++)
        for (int64_t b = a; b < m; b++, seconds++)
            for (int64_t k = 0; k < n_effects; k++)
                for (int64_t l = 0; l <= k; l++) {
                    const double *x = units + k * m, *y = units + l * m;
                    bend[k + l] += *seconds * x[a] * y[b];
                    bend[k + l] += a == b ? 0.0 : *seconds * x[b] * y[a];
                }
}

static void add_slopes(const mh_effect_rows *rows, const double *outputs, int64_t n_effects,
                       mh_row_sum *out)
{
    const int64_t m = rows->term->n_arguments, width = mh_width_of_slopes(m);
    const double *units = rows->lines + m;
    for (int64_t i = 0; i < rows->n; i++, units += rows->width, outputs += width) {
        out->value += *outputs;
        for (int64_t k = 0; k < n_effects; k++)
            for (int64_t a = 0; a < m; a++)
                out->slope[k] += outputs[1 + a] * units[k * m + a];
        add_bends(units, m, n_effects, outputs + 1 + m, out->bend);
    }
}

mh_row_sum mh_rows_at(const mh_drawing *on, const double *z, int wants_slopes)
{
    mh_row_sum out = {0};
    const int64_t n_effects = on->groups->n_effects;
    for (const mh_effect_rows *rows = on->terms; rows < on->terms + on->groups->n_terms; rows++) {
        if (rows->n == 0)
            continue;
        write_inputs(rows, z, n_effects, on->inputs);
        (wants_slopes ? rows->term->slopes : rows->term->values)(on->inputs, on->outputs, rows->n);
        if (wants_slopes)
            add_slopes(rows, on->outputs, n_effects, &out);
        for (int64_t i = 0; !wants_slopes && i < rows->n; i++)
            out.value += on->outputs[i];
    }
    return out;
}

/* Evaluate g, and its derivatives if they are wanted. */
static mh_point evaluate(const mh_drawing *on, double z, int wants_slopes)
{
    const mh_row_sum rows = mh_rows_at(on, &z, wants_slopes);
    mh_point out = {.z = z, .value = rows.value, .slope = rows.slope[0], .bend = rows.bend[0]};
    add_law(on->law, z, &out);
    return out;
}

static int is_finite(const mh_point *at)
{
    return isfinite(at->value) && isfinite(at->slope) && isfinite(at->bend);
}

/* ---- Points and tails. ---- */

/* Find a point near the mode of a concave g by Newton's method, and by bisection between points
 * with slopes of both signs; write the mode and the standard deviation by its derivatives. */
static mh_status find_middle(const mh_drawing *on, double start, mh_point *out, double *mode,
                             double *sd)
{
    double low = -INFINITY, high = INFINITY, last = 0.0, z = start;
    for (int64_t k = 0; k < MAX_STEPS; k++) {
        *out = evaluate(on, z, 1);
        if (!is_finite(out)) {
            *(z > last ? &high : &low) = z;
            z = 0.5 * (z + last);
            continue;
        }
        const double variance = 1.0 / mh_larger(-out->bend, MIN_CURVATURE);
        *sd = sqrt(variance);
        *mode = z + out->slope * variance;
        if (fabs(*mode - z) <= NEAR * *sd)
            return MH_OK;
        *(out->slope > 0.0 ? &low : &high) = last = z;
        const int is_slow = k % 3 == 2 && isfinite(high - low);
        z = low < *mode && *mode < high && !is_slow ? *mode : 0.5 * (low + high);
    }
    return MH_NO_ENVELOPE;
}

/* Add a point on one side of the mode of a concave g, with a slope towards the mode. */
static mh_status add_outer(mh_drawing *on, double mode, double sd, double side)
{
    double near = 0.0, far = INFINITY, reach = OUTER * sd;
    for (int64_t k = 0; k < MAX_STEPS; k++) {
        const mh_point at = evaluate(on, mode + side * reach, 1);
        if (is_finite(&at) && -side * at.slope * reach > MIN_SLOPE) {
            mh_insert_point(&on->envelope, at);
            return MH_OK;
        }
        *(is_finite(&at) ? &near : &far) = reach;
        reach = isfinite(far) ? 0.5 * (near + far) : 2.0 * reach;
    }
    return MH_NO_ENVELOPE;
}

/* Derivative of the predictors' effect alpha in z. */
static double scale_of(const mh_drawing *on) { return on->vectors[2 * on->groups->size + 1]; }

/* Place points by tangents of the rows at a centre; return whether the outer ones slope inwards. */
static int place_tangents(mh_drawing *on, int64_t g)
{
    const mh_tangents *tangents = &on->law->tangents;
    const int64_t n = tangents->n_points, d = on->groups->size;
    const mh_point *points = on->envelope.points, *last = points + n - 1;
    on->envelope.n_points = 0;
    for (int64_t k = g * n; k < (g + 1) * n; k++) {
        const double rise = mh_inner(tangents->gradients + k * d, tangents->move, d);
        mh_point at = {.z = tangents->points[k], .value = tangents->values[k] + rise,
                       .slope = scale_of(on) * tangents->slopes[k]};
        add_law(on->law, at.z, &at);
        mh_insert_point(&on->envelope, at);
        if (!is_finite(&at))
            return 0;
    }
    const double reach = 0.5 * (last->z - points->z);
    return n > 0 && reach * points->slope > MIN_SLOPE && -reach * last->slope > MIN_SLOPE;
}

/* Place points where rows are evaluated. */
static mh_status place_points(mh_drawing *on, int64_t g)
{
    const int64_t n_cells = on->law->n_cells, n_nodes = on->groups->n_nodes;
    on->envelope.n_points = 0;
    if (n_cells == 0) {
        mh_point middle;
        double mode, sd;
        MH_TRY(find_middle(on, on->groups->nodes[g * n_nodes + n_nodes / 2], &middle, &mode, &sd));
        mh_insert_point(&on->envelope, middle);
        MH_TRY(add_outer(on, mode, sd, -1.0));
        return add_outer(on, mode, sd, 1.0);
    }
    for (int64_t k = 0; k <= n_cells; k++) {
        mh_point at = evaluate(on, on->law->ends[g * (n_cells + 1) + k], 1);
        at.curvature = k < n_cells ? mh_larger(on->law->curvatures[g * n_cells + k], 0.0) : 0.0;
        on->envelope.points[on->envelope.n_points++] = at;
        if (!is_finite(&at))
            return MH_NO_ENVELOPE;
    }
    return MH_OK;
}

/* Bound a tail beyond all cells: its rows rise by at most the slope times the distance, and are at
 * most the ceiling. Student's t is at most the power that it tends to. */
static void bound_tail(const mh_effect_law *law, int64_t at, mh_span *tail)
{
    mh_point alone = {.z = tail->start};
    add_law(law, tail->start, &alone);
    const int is_power = law->kind == MH_STUDENT_LAW;
    const double falls = -tail->side * alone.slope, height = law->ceilings[at] + alone.value;
    const double rate = is_power && law->slopes[at] <= 0.0 ? falls : falls - law->slopes[at];
    const int by_slope = rate > 0.0 && (!is_power || law->slopes[at] <= 0.0);
    tail->rate = by_slope ? rate : falls;
    if (!by_slope || height - log(falls) < tail->height - log(rate)) {
        tail->rate = falls;
        tail->height = height;
    }
    if (is_power) {
        tail->power = law->shape;
        tail->height += 0.5 * (law->shape + 1.0) * log1p(law->shape / mh_square(tail->start));
    }
}

static mh_status build(mh_drawing *on, int64_t g)
{
    const mh_envelope *envelope = &on->envelope;
    mh_span tails[2];
    for (int64_t k = 0; k < 2; k++) {
        const mh_point *end = envelope->points + (k ? envelope->n_points - 1 : 0);
        const double side = k ? 1.0 : -1.0;
        tails[k] = (mh_span){.start = end->z, .side = side, .length = INFINITY,
                              .height = end->value, .rate = -side * end->slope};
        if (on->law->n_cells > 0)
            bound_tail(on->law, 2 * g + k, tails + k);
        if (!(tails[k].rate > 0.0) || !isfinite(tails[k].height))
            return MH_NO_ENVELOPE;
    }
    return mh_build_envelope(&on->envelope, tails);
}

/* Build an envelope from tangents at a centre, if they make one, or from points. */
static mh_status begin(mh_drawing *on, int64_t g, int by_tangents)
{
    if (by_tangents && place_tangents(on, g))
        return build(on, g);
    MH_TRY(place_points(on, g));
    return build(on, g);
}

/* ---- Draws. ---- */

int mh_is_above(double value, double bound)
{
    /* A density that is NaN contradicts any bound. */
    return !(value <= bound + SLACK + RELATIVE_SLACK * fabs(bound));
}

/* Make a rejected proposal a point if there is room, and bounds hold on both sides of it. */
static mh_status refine(mh_drawing *on, int64_t g, double z)
{
    const mh_envelope *envelope = &on->envelope;
    const int is_inside =
        envelope->points[0].z < z && z < envelope->points[envelope->n_points - 1].z;
    if (envelope->n_points == MH_POINTS || (on->law->n_cells > 0 && !is_inside))
        return MH_OK;
    const mh_point at = evaluate(on, z, 1);
    if (!is_finite(&at))
        return MH_OK;
    mh_insert_point(&on->envelope, at);
    /* Beyond tangents of another position the density may rise. */
    return build(on, g) == MH_OK ? MH_OK : begin(on, g, 0);
}

static mh_status draw_effect(mh_drawing *on, int64_t g, double *effect, int64_t *trials)
{
    double height;
    MH_TRY(begin(on, g, 1));
    for (int64_t k = 0; k < MH_MAX_TRIALS; k++) {
        *effect = mh_draw_below(&on->envelope, on->rng, &height);
        const double value = evaluate(on, *effect, 0).value;
        ++*trials;
        if (mh_is_above(value, height))
            return MH_NO_ENVELOPE;
        if (on->rng->standard_exponential(on->rng->bits) >= height - value)
            return MH_OK;
        MH_TRY(refine(on, g, *effect));
    }
    return MH_NO_ENVELOPE;
}

static int64_t rows_between(const mh_groups *groups, int64_t first, int64_t last)
{
    int64_t n = 0;
    for (int64_t k = 0; k < groups->n_terms; k++) {
        const int64_t *starts = groups->starts + k * (groups->n_groups + 1);
        n += starts[last] - starts[first];
    }
    return n;
}

/* Read the rows of some groups; move_to_group is then called for each in turn. */
static mh_status read_groups(mh_drawing *on, int64_t first, int64_t last, mh_arena *scratch)
{
    int64_t n_inputs = 0, n_outputs = 0;
    for (int64_t k = 0; k < on->groups->n_terms; k++) {
        const mh_term *term = on->groups->terms + k;
        const int64_t *starts = on->groups->starts + k * (on->groups->n_groups + 1);
        const int64_t n = starts[last] - starts[first], m = term->n_arguments;
        const int64_t n_vectors = 1 + on->groups->n_effects, width = n_vectors * m + term->n_taken;
        mh_forms forms;
        MH_VECTOR(double, lines, scratch, n * width);
        MH_TRY(mh_room_for_forms(term, n, &forms, scratch));
        mh_read_rows(term, on->groups->rows + starts[first], n, on->vectors, n_vectors,
                     on->groups->size + on->groups->n_effects, &forms, lines);
        on->terms[k] = (mh_effect_rows){term, 0, width, lines};
        n_inputs = mh_max(n_inputs, n * (m + term->n_taken));
        n_outputs = mh_max(n_outputs, n * mh_width_of_slopes(m));
    }
    on->inputs = mh_take(scratch, n_inputs, double);
    on->outputs = mh_take(scratch, n_outputs, double);
    MH_NEED(on->inputs && on->outputs);
    return MH_OK;
}

static void move_to_group(mh_drawing *on, int64_t g)
{
    for (int64_t k = 0; k < on->groups->n_terms; k++) {
        const int64_t *starts = on->groups->starts + k * (on->groups->n_groups + 1);
        on->terms[k].lines += on->terms[k].n * on->terms[k].width;
        on->terms[k].n = starts[g + 1] - starts[g];
    }
}

/* Write the position with the effects at z = 0, and their derivatives in each z, (1 + q, d + q). */
static void write_vectors(const mh_groups *groups, const double *theta, double *vectors)
{
    const int64_t size = groups->size, n_effects = groups->n_effects, width = size + n_effects;
    mh_fill(vectors, (1 + n_effects) * width, 0.0);
    mh_copy_to(vectors, theta, size);
    for (int64_t k = 0; k < n_effects; k++)
        vectors[size + k] =
            mh_inner(groups->location + k * size, theta, size) + groups->offsets[k];
    for (const mh_scale *at = groups->scales; at < groups->scales + groups->n_scales; at++)
        vectors[(1 + at->column) * width + size + at->row] =
            mh_scale_at(at, theta[at->coordinate]).value;
}

/* Whether the rows of a group do not depend on its effects. */
static int are_constant(const mh_drawing *on, int64_t g)
{
    const int64_t width = on->groups->size + on->groups->n_effects;
    const double *derivatives = on->vectors + width;
    for (int64_t j = 0; j < on->groups->n_effects * width; j++)
        if (derivatives[j] != 0.0)
            return rows_between(on->groups, g, g + 1) == 0;
    return 1;
}

mh_status mh_draw_effects(const mh_groups *groups, const mh_effect_law *law, const double *theta,
                          int64_t first, int64_t last, const mh_generator *rng, double *effects,
                          int64_t *counts, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t q = groups->n_effects;
    MH_VECTOR(mh_drawing, on, scratch, 1);
    MH_VECTOR(mh_effect_rows, terms, scratch, groups->n_terms);
    MH_VECTOR(double, vectors, scratch, (1 + q) * (groups->size + q));
    write_vectors(groups, theta, vectors);
    *on = (mh_drawing){.groups = groups, .law = law, .rng = rng, .vectors = vectors, .terms = terms};
    for (int64_t start = first, end; start < last; start = end) {
        MH_SCOPE(scratch);
        for (end = start + 1; end < last && rows_between(groups, start, end + 1) <= ROWS_AT_ONCE;)
            end++;
        MH_TRY(read_groups(on, start, end, scratch));
        for (int64_t g = start; g < end; g++, effects += q, counts[0]++) {
            move_to_group(on, g);
            if (are_constant(on, g))
                for (int64_t k = 0; k < q; k++)
                    effects[k] = draw_from_law(law, rng);
            else if (q == 1)
                MH_TRY(draw_effect(on, g, effects, counts + 1));
            else
                MH_TRY(mh_draw_in_plane(on, g, effects, counts + 1, scratch));
        }
    }
    return MH_OK;
}
