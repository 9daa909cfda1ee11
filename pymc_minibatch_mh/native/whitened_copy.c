/* Candidates rejected by thinning bounds before their data are read: an 8-bit copy of rows.
 *
 * The remainder of a row depends on a proposal only through the whitened gradients of its linear
 * predictors. With P the projection on their span, |dU_i| <= c_i M(P a, P a'), which is far
 * below c_i M(a, a') in many dimensions: P keeps about 1/sqrt(d) of a random direction. With t =
 * |P a|, t' = |P a'| and s = |P (a' - a)|, the *thinning bound* of a row is c_i times
 *
 *     order 3    min{ (t^4 + t'^4)/24, s max(t, t')^3/6 },
 *     order 2    min{ (t^3 + t'^3)/6, s max(t, t')^2/2 },    and |x'^3 - x^3|/6 of one direction,
 *     order 1    min{ (t^2 + t'^2)/2, s max(t, t') },
 *     order 0    s,
 *
 * or kappa times as much, but never more than c_i M. Candidates are drawn at the rates c_i M,
 * whose total is known without any evaluation. One is kept with probability (thinning
 * bound)/(c_i M), its *share*, before its data are read; the thinning bound then replaces c_i M.
 * Shares are symmetric in the two ends and depend on the proposal alone: kept rows are
 * independent Poisson counts.
 *
 * Shares are rounded up. A packed row (line) has the orthonormal directions e of a row, as 8-bit
 * integers Q with a scale q and the residual |e - q Q|, so that |e.w| is at most
 *
 *     q |Q.w| + |e - q Q| |w| + (single-precision arithmetic) |w|.
 *
 * Directions that all rows share, such as that of log sigma, are stored once and in full
 * precision. */
#include "inside.h"

enum { HEAD = 8 }; /* bytes per direction for its scale and residual */

/* Minimum relative length of a direction, after orthogonalisation, that counts as independent. */
static const double DEPENDENT = 1e-8;
/* Upper bound of the relative rounding error of whitened gradients and positions. */
static const double WHITENED = 1.0 / (1 << 20);
static const double HALF_ULP = 1.0 / (1 << 24); /* of single precision */
/* More than the error of a few numbers in single precision, relative to them. */
static const double SINGLE = 1e-6;
/* Safety factors far above rounding errors: `ROUNDING` of a share, `ABOVE_ROUNDING` above that. */
static const double ROUNDING = 1.0 + 1e-10, ABOVE_ROUNDING = 1.0 + 1e-9;
/* Bound of the loss of products by underflow in single precision. */
static const double SMALLEST = 1e-30;

/* ---- Packing of rows. ---- */

static double largest_entry(const double *vector, int64_t size)
{
    double largest = 0.0;
    for (int64_t j = 0; j < size; j++)
        largest = mh_larger(largest, fabs(vector[j]));
    return largest;
}

/* Subtract from a vector its component along a unit direction. */
static void without(const double *direction, double *vector, int64_t size)
{
    const double along = mh_inner(direction, vector, size);
    for (int64_t j = 0; j < size; j++)
        vector[j] -= along * direction[j];
}

/* Orthonormalise direction k; return 1, or 0 for a zero vector. Infinity means that only rounding
 * errors are left: the direction is set to zero, and stands for any direction. */
double mh_orthogonalize(double *directions, const double *others, int64_t n_others, int64_t k,
                        int64_t size)
{
    double *vector = directions + k * size;
    const double largest = largest_entry(vector, size);
    /* Rescale first, because squares of very small or large numbers would underflow or overflow. */
    for (int64_t j = 0; j < size; j++)
        vector[j] = largest > 0.0 ? vector[j] / largest : 0.0;
    const double before = mh_length_of(vector, size);
    /* The second pass removes the rounding errors of the first. */
    for (int time = 0; time < 2; time++) {
        for (int64_t other = 0; other < n_others; other++)
            without(others + other * size, vector, size);
        for (int64_t other = 0; other < k; other++)
            without(directions + other * size, vector, size);
    }
    const double left = mh_length_of(vector, size);
    if (left > DEPENDENT * before && left < INFINITY) {
        for (int64_t j = 0; j < size; j++)
            vector[j] /= left;
        return 1.0;
    }
    mh_fill(vector, size, 0.0);
    return before == 0.0 ? 0.0 : INFINITY;
}

static float rounded_up(double number)
{
    const float single = (float)number;
    return (double)single >= number ? single : nextafterf(single, INFINITY);
}

/* Pack a direction into 8-bit integers; `length` is 1, 0, or infinity (unknown direction). */
static void pack(const double *direction, int64_t size, double length, int8_t *head, int8_t *line)
{
    const float scale = (float)(largest_entry(direction, size) / 127.0);
    double square = 0.0;
    for (int64_t j = 0; j < size; j++) {
        double whole = scale > 0.0f ? rint(direction[j] / (double)scale) : 0.0;
        whole = mh_smaller(mh_larger(whole, -127.0), 127.0);
        line[j] = (int8_t)whole;
        square += mh_square(direction[j] - whole * (double)scale);
    }
    const float residual = rounded_up(length <= 1.0 ? sqrt(square) * ROUNDING : 1.0);
    memcpy(head, &scale, sizeof scale);
    memcpy(head + sizeof scale, &residual, sizeof residual);
}

void mh_pack_rows(double *whitened, int64_t n, int64_t own, int64_t size, const double *shared,
                  int64_t n_shared, int8_t *lines, int64_t width)
{
    memset(lines, 0, (size_t)(n * width));
    for (int64_t i = 0; i < n; i++) {
        double *directions = whitened + i * own * size;
        int8_t *line = lines + i * width;
        for (int64_t k = 0; k < own; k++) {
            const double length = mh_orthogonalize(directions, shared, n_shared, k, size);
            pack(directions + k * size, size, length, line + HEAD * k,
                 line + own * HEAD + k * size);
        }
    }
}

/* ---- A proposal, converted for multiplication with the packed rows of the copy. ---- */

static double squares_along(const mh_copy *copy, const double *vector, int64_t size)
{
    double total = 0.0;
    for (int64_t k = 0; k < copy->n_shared; k++)
        total += mh_square(mh_inner(copy->shared + k * size, vector, size));
    return total;
}

/* Length of a row with one direction, padded to a multiple of 16: SIMD loops need no remainder. */
static int64_t length_of_line(int64_t size) { return (HEAD + size + 15) / 16 * 16; }

/* Allocate a vector between zeros, which multiply the head of a packed row and its padding. */
static float *with_zeros(int64_t size, mh_arena *scratch)
{
    const int64_t n = length_of_line(size);
    float *room = mh_take(scratch, n, float);
    return room ? (float *)memset(room, 0, (size_t)n * sizeof *room) + HEAD : NULL;
}

/* Convert a proposal to the form in which packed rows use it; its reverse has swapped ends. */
mh_status mh_ends_of_move(const mh_copy *copy, const mh_move *move, int64_t order, int64_t size,
                          double raised, mh_ends *out, mh_arena *scratch)
{
    float *vectors[2] = {with_zeros(size, scratch), with_zeros(size, scratch)};
    MH_NEED(vectors[0] && vectors[1]);
    *out = (mh_ends){.middle = vectors[0], .half = vectors[1], .raised = raised, .order = order,
                     .size = size};
    double middle = 0.0, half = 0.0;
    for (int64_t j = 0; j < size; j++) {
        const double one = 0.5 * (move->here[j] + move->there[j]), other = 0.5 * move->step[j];
        out->middle[j] = (float)one;
        out->half[j] = (float)other;
        middle += one * one;
        half += other * other;
    }
    middle = sqrt(middle);
    half = sqrt(half);
    /* |q Q| is at most 2; each operation in a sum of d products is off by half an ulp at most. */
    const double relative = 2.0 * ((double)size + 4.0) * HALF_ULP + WHITENED;
    out->slack[0] = relative * (middle + half) + SMALLEST;
    out->slack[1] = 2.0 * relative * half + SMALLEST;
    const double *whitened[3] = {move->here, move->there, move->step};
    for (int k = 0; k < 3; k++)
        out->along[k] = squares_along(copy, whitened[k], size);
    out->lengths[0] = mh_length_of(move->here, size);
    out->lengths[1] = mh_length_of(move->there, size);
    out->lengths[2] = 2.0 * half;
    return MH_OK;
}

/* ---- Thinning bounds of rows. ---- */

/* Inner products of a row's direction: e.a, e.a' and Q.(a' - a)/2, with bounds of their errors. */
typedef struct {
    double x, x_new, half, scale, residual, error, other_error;
} products;

/* Multiply packed rows of one direction by (a + a')/2 and by (a' - a)/2; `out` is (n, 2). */
static void multiply_lines(const mh_copy *copy, const mh_ends *ends, const int64_t *rows, int64_t n,
                           float *out)
{
    mh_products_of_lines(copy->lines, copy->width, rows, n, ends->middle - HEAD,
                         ends->half - HEAD, length_of_line(ends->size), out);
}

static inline products products_by(const mh_ends *ends, const int8_t *head, const float *by)
{
    float numbers[2];
    memcpy(numbers, head, sizeof numbers);
    const double scale = (double)numbers[0], residual = (double)numbers[1];
    const double middle = (double)by[0], half = (double)by[1];
    return (products){
        scale * middle - scale * half, scale * middle + scale * half, half, scale, residual,
        residual * ends->lengths[0] + ends->slack[0], residual * ends->lengths[1] + ends->slack[0]};
}

static products products_of(const mh_copy *copy, const mh_ends *ends, int64_t row, int64_t k)
{
    const int64_t start = HEAD * copy->own + k * ends->size;
    float by[2];
    if (copy->own == 1)
        multiply_lines(copy, ends, &row, 1, by);
    else
        mh_products_of_lines(copy->lines + start, copy->width, &row, 1, ends->middle, ends->half,
                             ends->size, by);
    return products_by(ends, copy->lines + row * copy->width + HEAD * k, by);
}

/* Size M of a projected proposal, from the lengths of x, x' and of the step x' - x. */
static double size_of_ends(double x, double x_new, double step, int64_t order)
{
    const double most = mh_larger(x, x_new);
    if (order == 0)
        return step;
    if (order == 1)
        return mh_smaller(0.5 * (x * x + x_new * x_new), step * most);
    if (order == 3)
        return mh_smaller((x * mh_cube(x) + x_new * mh_cube(x_new)) / 24.0,
                          step * mh_cube(most) / 6.0);
    return mh_smaller((mh_cube(x) + mh_cube(x_new)) / 6.0, 0.5 * step * most * most);
}

/* Whether the order is 2 or 3 and each row depends on a proposal through a single direction. */
static int sees_one_direction(const mh_copy *copy, const mh_ends *ends)
{
    return ends->order >= 2 && copy->own == 1 && !copy->n_shared && !copy->kinked;
}

/* Share of a row whose direction e leads from the centre to its kink, at distance rho. Beyond it, at
 * e.a > rho, the remainder grows by at most J per unit, after a jump of at most H. Of c_i, the part
 * J (1 - rho / radius), or J + H, is due to this kink; the rest is not thinned. */
static double share_at_kink(const mh_copy *copy, const mh_ends *ends, int64_t row)
{
    const products by = products_of(copy, ends, row, 0);
    const int8_t *from = copy->lines + row * copy->width + HEAD + ends->size;
    float distance, slopes[2];
    memcpy(&distance, from, sizeof distance);
    memcpy(slopes, from + sizeof distance + (size_t)ends->number * sizeof slopes, sizeof slopes);
    const double rho = (double)distance, steep = (double)slopes[0], jump = (double)slopes[1];
    const double c = (double)ends->table->c[row];
    const double m = mh_larger(1.0, ends->lengths[0] + ends->lengths[1]) * ROUNDING;
    const double x = mh_larger(by.x + by.error - rho, 0.0);
    const double x_new = mh_larger(by.x_new + by.other_error - rho, 0.0);
    double own = steep * (x + x_new), share = steep * mh_larger(1.0 - rho / ends->table->radius, 0.0);
    if (jump > 0.0) {
        own = x > 0.0 || x_new > 0.0 ? jump + steep * m : 0.0;
        share = rho * (1.0 + 10.0 * SINGLE) < ends->table->radius ? jump + steep : 0.0;
    }
    const double rest = mh_larger(c - (share - SINGLE * (steep + jump)), 0.0);
    return ends->raised * (rest * m + own) * ROUNDING / c;
}

/* Share of a row without a limit; NaN or infinite where it overflows. */
static double unlimited_share(const mh_copy *copy, const mh_ends *ends, int64_t row)
{
    double x = ends->along[0], x_new = ends->along[1], step = ends->along[2], sharp = INFINITY;
    for (int64_t k = 0; k < copy->own; k++) {
        const products by = products_of(copy, ends, row, k);
        x += mh_square(fabs(by.x) + by.error);
        x_new += mh_square(fabs(by.x_new) + by.other_error);
        step += mh_square(2.0 * by.scale * fabs(by.half) + by.residual * ends->lengths[2] +
                          ends->slack[1]);
        if (ends->order == 2 && sees_one_direction(copy, ends)) {
            const double rise = mh_cube(by.x_new + by.other_error) - mh_cube(by.x - by.error);
            const double fall = mh_cube(by.x + by.error) - mh_cube(by.x_new - by.other_error);
            sharp = mh_larger(rise, fall) / 6.0;
        }
    }
    const double size = size_of_ends(sqrt(x), sqrt(x_new), sqrt(step), ends->order);
    return ends->raised * (mh_smaller(size, sharp) * ROUNDING);
}

double mh_own_share(const mh_copy *copy, const mh_ends *ends, int64_t row)
{
    if (copy->kinked)
        return mh_smaller(share_at_kink(copy, ends, row), 1.0);
    const double share = unlimited_share(copy, ends, row);
    /* If the share overflows, return 1, which keeps the row. */
    return share < 1.0 ? share : 1.0;
}

static inline double share_by(const mh_ends *ends, const products *by)
{
    const double x = fabs(by->x) + by->error, x_new = fabs(by->x_new) + by->other_error;
    if (ends->order == 3)
        return ends->raised * (x * mh_cube(x) + x_new * mh_cube(x_new)) * ABOVE_ROUNDING / 24.0;
    return ends->raised * (mh_cube(x) + mh_cube(x_new)) * ABOVE_ROUNDING / 6.0;
}

double mh_share_of_ends(const mh_copy *copy, const mh_ends *ends, int64_t row)
{
    if (!sees_one_direction(copy, ends))
        return INFINITY;
    const products by = products_of(copy, ends, row, 0);
    return share_by(ends, &by);
}

/* ---- Candidates. ---- */

/* Draw candidate rows from an alias table, each with a uniform number for its thinning. */
static void draw_candidates(const mh_table *table, int64_t n_drawn, const mh_generator *rng,
                            int64_t n, int64_t *drawn, double *chances)
{
    for (int64_t k = 0; k < n; k++)
        drawn[k] = mh_integer_below(rng, n_drawn);
    for (int64_t k = 0; k < n; k++) {
        chances[k] = mh_uniform(rng);
        mh_prefetch(table->thresholds + drawn[k]);
        mh_prefetch(table->aliases + drawn[k]);
    }
    for (int64_t k = 0; k < n; k++) {
        const double threshold = table->thresholds[drawn[k]];
        /* Given this outcome, the rescaled number is uniform again, and is used for thinning. */
        if (chances[k] < threshold) {
            chances[k] /= threshold;
        } else {
            chances[k] = (chances[k] - threshold) / (1.0 - threshold);
            drawn[k] = table->aliases[drawn[k]];
        }
    }
}

/* Reject candidates by the quick bound of both ends; move the others to the front and return
 * their number. If the bound overflows, a candidate is kept. */
static int64_t drop_by_ends(const mh_copy *copy, const mh_ends *ends, int64_t n, int64_t *drawn,
                            double *chances)
{
    float by[2 * MH_AHEAD];
    int64_t left = 0;
    multiply_lines(copy, ends, drawn, n, by);
    for (int64_t k = 0; k < n; k++) {
        const products of_row = products_by(ends, copy->lines + drawn[k] * copy->width, by + 2 * k);
        const int kept = !(chances[k] >= share_by(ends, &of_row));
        drawn[left] = drawn[k];
        chances[left] = chances[k];
        left += kept;
    }
    return left;
}

/* Reject candidates by the quick bound where there is one; prefetch packed rows elsewhere. */
static int64_t drop_quickly(const mh_copy *copy, const mh_ends *ends, int64_t n, int64_t *drawn,
                            double *chances)
{
    if (sees_one_direction(copy, ends))
        return drop_by_ends(copy, ends, n, drawn, chances);
    for (int64_t k = 0; k < n; k++)
        mh_prefetch_line(copy->lines + drawn[k] * copy->width, copy->width);
    return n;
}

/* Draw n candidates, in batches; prefetch their packed rows and thin them. Write the kept rows. */
int64_t mh_keep_candidates(const mh_copy *copy, const mh_ends *ends, const mh_table *table,
                           int64_t n_drawn, const mh_generator *rng, int64_t n, int64_t *rows)
{
    int64_t drawn[MH_AHEAD], kept = 0;
    double chances[MH_AHEAD];
    for (int64_t first = 0; first < n; first += MH_AHEAD) {
        int64_t count = mh_min(MH_AHEAD, n - first);
        draw_candidates(table, n_drawn, rng, count, drawn, chances);
        count = drop_quickly(copy, ends, count, drawn, chances);
        for (int64_t k = 0; k < count; k++)
            if (chances[k] < mh_own_share(copy, ends, drawn[k]))
                rows[kept++] = drawn[k];
    }
    return kept;
}

int64_t mh_keep_of_groups(const mh_copy *copy, const mh_ends *ends, const mh_group_rates *rates,
                          const mh_generator *rng, int64_t n, int64_t *rows)
{
    int64_t drawn[MH_AHEAD], kept = 0;
    double chances[MH_AHEAD], sizes[MH_AHEAD];
    for (int64_t first = 0; first < n; first += MH_AHEAD) {
        int64_t count = mh_min(MH_AHEAD, n - first);
        mh_draw_of_groups(rates, rng, count, drawn, sizes, chances);
        /* Thinning bounds are compared with uniform numbers below a candidate's rate. */
        for (int64_t k = 0; k < count; k++)
            chances[k] *= sizes[k];
        count = drop_quickly(copy, ends, count, drawn, chances);
        for (int64_t k = 0; k < count; k++)
            if (!(chances[k] >= unlimited_share(copy, ends, drawn[k])))
                rows[kept++] = drawn[k];
    }
    return kept;
}
