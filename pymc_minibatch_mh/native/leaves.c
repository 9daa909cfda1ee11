/* Leaf functions with SIMD loops, compiled once per instruction set: see instruction_sets.c. Sums
 * have a fixed order, so that all sets give equal results. Leaf functions only call inlined
 * functions, because wide registers would have to be cleared before any other call. leaves.h has a
 * line for each function that is not static. */
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "inside.h"

/* Multiply a lower triangular matrix by a vector, with rows and columns from `first` on. */
void mh_lower_times(const double *matrix, const double *vector, int64_t first, int64_t size,
                    double *out)
{
    for (int64_t i = first; i < size; i++)
        out[i] = mh_inner(matrix + i * size + first, vector + first, i + 1 - first);
}

/* Bilinear form a^T A b of a square matrix A. */
double mh_inner_by(const double *matrix, const double *a, const double *b, int64_t size)
{
    double total = 0.0;
    for (int64_t i = 0; i < size; i++)
        total += a[i] * mh_inner(matrix + i * size, b, size);
    return total;
}

/* ---- Packed rows of the 8-bit copy. Compilers do not vectorise the conversion of bytes to floats,
 * so that it is written out here. ---- */

typedef float four_numbers __attribute__((vector_size(16)));
typedef float eight_numbers __attribute__((vector_size(32), aligned(4), may_alias));

/* Convert sixteen bytes to floats. */
static inline void widen(const int8_t *bytes, eight_numbers out[2])
{
#ifdef __AVX2__
    for (int k = 0; k < 2; k++) {
        const __m128i half = _mm_loadl_epi64((const void *)(bytes + 8 * k));
        out[k] = (eight_numbers)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(half));
    }
#else
    typedef int8_t sixteen __attribute__((vector_size(16), aligned(1), may_alias));
    typedef int16_t shorts __attribute__((vector_size(32)));
    typedef int16_t half_of_shorts __attribute__((vector_size(16)));
    typedef int32_t integers __attribute__((vector_size(32)));
    const shorts wide = __builtin_convertvector(*(const sixteen *)bytes, shorts);
    half_of_shorts halves[2];
    memcpy(halves, &wide, sizeof wide);
    for (int k = 0; k < 2; k++)
        out[k] = __builtin_convertvector(__builtin_convertvector(halves[k], integers),
                                         eight_numbers);
#endif
}

/* Inner products of a packed row with (a + a')/2 and (a' - a)/2, as eight partial sums each. */
typedef struct line_sums {
    eight_numbers middle;
    eight_numbers half;
} line_sums;

static inline void add_sixteen(const int8_t *line, const float *middle, const float *half,
                               line_sums *sums)
{
    eight_numbers numbers[2];
    widen(line, numbers);
    for (int k = 0; k < 2; k++) {
        sums->middle += numbers[k] * *(const eight_numbers *)(middle + 8 * k);
        sums->half += numbers[k] * *(const eight_numbers *)(half + 8 * k);
    }
}

/* Add the products of the last entries, fewer than sixteen, to the eight partial sums. */
static inline void add_rest(const int8_t *line, const float *by, int64_t n, eight_numbers *sums)
{
    float x[8];
    memcpy(x, sums, sizeof x);
    for (int64_t j = 0; j < n; j++)
        x[j % 8] += (float)line[j] * by[j];
    memcpy(sums, x, sizeof x);
}

static inline float total_of_eight(const eight_numbers *sums)
{
    four_numbers halves[2];
    memcpy(halves, sums, sizeof halves);
    const four_numbers x = halves[0] + halves[1];
    return (x[0] + x[2]) + (x[1] + x[3]);
}

/* Multiply two packed rows at a time: additions for one row wait for each other. */
static inline void products_of_two(const int8_t *const lines[2], const float *middle,
                                   const float *half, int64_t size, float *out)
{
    line_sums sums[2] = {{{0.0f}, {0.0f}}, {{0.0f}, {0.0f}}};
    int64_t j = 0;
    for (; j + 16 <= size; j += 16)
        for (int k = 0; k < 2; k++)
            add_sixteen(lines[k] + j, middle + j, half + j, sums + k);
    for (int k = 0; k < 2; k++) {
        if (j < size) {
            add_rest(lines[k] + j, middle + j, size - j, &sums[k].middle);
            add_rest(lines[k] + j, half + j, size - j, &sums[k].half);
        }
        out[2 * k] = total_of_eight(&sums[k].middle);
        out[2 * k + 1] = total_of_eight(&sums[k].half);
    }
}

/* Number of packed rows prefetched before the first is read. With more of them, 256 bytes each,
 * updates took up to a third longer; with a prefetch of all rows, twice as long. */
enum { LINES_AHEAD = 12 };

/* Write Q.(a + a')/2 and Q.(a' - a)/2 for n packed rows Q: see whitened_copy.c. */
void mh_products_of_lines(const int8_t *lines, int64_t width, const int64_t *rows, int64_t n,
                          const float *middle, const float *half, int64_t size, float *out)
{
    for (int64_t i = 0; i < mh_min(n, LINES_AHEAD); i++)
        mh_prefetch_line(lines + rows[i] * width, size);
    for (int64_t i = 0; i < n; i += 2) {
        const int64_t second = i + 1 < n ? rows[i + 1] : rows[i];
        for (int64_t k = i + LINES_AHEAD; k < mh_min(n, i + LINES_AHEAD + 2); k++)
            mh_prefetch_line(lines + rows[k] * width, size);
        const int8_t *two[] = {lines + rows[i] * width, lines + second * width};
        float products[4];
        products_of_two(two, middle, half, size, products);
        memcpy(out + 2 * i, products, (i + 1 < n ? 4 : 2) * sizeof *products);
    }
}

/* ---- Weighted sums of vectors: entries are independent (SIMD), each is summed in order. ---- */

/* Run a statement for each k below n, in blocks of eight, which compilers then vectorise. */
#define FOR_EIGHTS(n, statement)                                                                   \
    do {                                                                                           \
        int64_t first = 0;                                                                         \
        for (; first + 8 <= n; first += 8)                                                         \
            for (int64_t k = first; k < first + 8; k++)                                            \
                statement;                                                                         \
        for (int64_t k = first; k < n; k++)                                                        \
            statement;                                                                             \
    } while (0)

/* Add four weighted vectors to `out`, one after the other: each addition is rounded separately. */
static inline void add_four(double *restrict out, const double *const lines[4], const double by[4],
                            int64_t n)
{
    const double *a = lines[0], *b = lines[1], *c = lines[2], *d = lines[3];
    FOR_EIGHTS(n, out[k] = (((out[k] + by[0] * a[k]) + by[1] * b[k]) + by[2] * c[k]) + by[3] * d[k]);
}

/* Add four weighted vectors to `out`, after summing them. */
static inline void add_sum_of_four(double *restrict out, const double *const lines[4],
                                   const double by[4], int64_t n)
{
    const double *a = lines[0], *b = lines[1], *c = lines[2], *d = lines[3];
    FOR_EIGHTS(n, out[k] += by[0] * a[k] + by[1] * b[k] + by[2] * c[k] + by[3] * d[k]);
}

static inline void add_one(double *restrict out, const double *restrict line, double by, int64_t n)
{
    FOR_EIGHTS(n, out[k] += by * line[k]);
}

/* Add a weighted sum of n rows of a matrix, columns `low` to `high`, to a vector; `width` is the
 * row stride. Four rows are added at a time, and each entry's sum keeps the order of the rows. */
void mh_add_lines(const double *matrix, int64_t width, const double *weights, int64_t n,
                  int64_t low, int64_t high, double *out)
{
    const double *line = matrix + low;
    int64_t j = 0;
    for (; j + 4 <= n; j += 4, line += 4 * width) {
        const double *lines[] = {line, line + width, line + 2 * width, line + 3 * width};
        add_four(out + low, lines, weights + j, high - low);
    }
    for (; j < n; j++, line += width)
        add_one(out + low, line, weights[j], high - low);
}

/* Write the inner products of n rows of a matrix with a vector, over columns `low` to `high`. */
void mh_inner_of_lines(const double *matrix, int64_t width, const double *vector, int64_t n,
                       int64_t low, int64_t high, double *out)
{
    for (int64_t j = 0; j < n; j++)
        out[j] = mh_inner(matrix + j * width + low, vector + low, high - low);
}

/* Weighted sums of |x|^3 + |x'|^3, |x' - x|^3 and max(|x|, |x'|)^3, and a count, in eight lanes. */
typedef struct cubes {
    double both[8], way[8], farther[8], within[8];
} cubes;

/* Add cubes of an effect's values x, y and its step y - x to a SIMD lane, if within the radius. */
static inline void add_cubes(double weight, double here, double there, double radius, cubes *sums,
                             int lane)
{
    const int inside = mh_larger(fabs(here), fabs(there)) <= radius;
    const double x = inside ? here : 0.0, y = inside ? there : 0.0;
    sums->both[lane] += weight * (mh_cube(fabs(x)) + mh_cube(fabs(y)));
    sums->way[lane] += weight * mh_cube(fabs(y - x));
    sums->farther[lane] += weight * mh_cube(mh_larger(fabs(x), fabs(y)));
    sums->within[lane] += inside ? 1.0 : 0.0;
}

/* Write the sums of `cubes` over n group effects that are within their radii: see candidates.c. */
void mh_sum_cubes_within(const double *weights, const double *radii, const double *here,
                         const double *there, int64_t n, double *sums)
{
    cubes lanes = {{0.0}, {0.0}, {0.0}, {0.0}};
    int64_t g = 0;
    for (; g + 8 <= n; g += 8)
        for (int k = 0; k < 8; k++)
            add_cubes(weights[g + k], here[g + k], there[g + k], radii[g + k], &lanes, k);
    cubes whole = {{mh_total_of(lanes.both)},
                   {mh_total_of(lanes.way)},
                   {mh_total_of(lanes.farther)},
                   {mh_total_of(lanes.within)}};
    for (; g < n; g++)
        add_cubes(weights[g], here[g], there[g], radii[g], &whole, 0);
    sums[0] = whole.both[0];
    sums[1] = whole.way[0];
    sums[2] = whole.farther[0];
    sums[3] = whole.within[0];
}

/* Write first derivatives and precisions (minus second derivatives) of n log-densities, from values
 * a step back, here and a step forth. If they are not finite, write 0 and the usual precision. */
void mh_bend_of(const double *const values[3], const double *steps, const double *usual, int64_t n,
                double *restrict slopes, double *restrict precisions)
{
    const double *back = values[0], *middle = values[1], *forth = values[2];
    for (int64_t g = 0; g < n; g++) {
        const double slope = (forth[g] - back[g]) / (2.0 * steps[g]);
        const double bent = forth[g] + back[g] - 2.0 * middle[g];
        const double precision = -bent / (steps[g] * steps[g]);
        const double both = fabs(slope + precision);
        slopes[g] = both < INFINITY ? slope : 0.0;
        precisions[g] = both < INFINITY ? precision : usual[g];
    }
}

/* ---- Linear predictors of rows. ---- */

/* Write the fixed parts of the m linear predictors of n rows to `out`, with row stride `width`.
 * Linear predictor a has the coefficients from ends[a - 1] to ends[a] in each row of `fixed`. */
void mh_apply_fixed(const double *fixed, int64_t n, int64_t n_fixed, const double *picked,
                    const int64_t *ends, int64_t m, double *out, int64_t width)
{
    for (int64_t i = 0; i < n; i++, fixed += n_fixed, out += width)
        for (int64_t a = 0, start = 0; a < m; start = ends[a++])
            out[a] = mh_inner(fixed + start, picked + start, ends[a] - start);
}

/* Add L^T times a sparse vector with `weights` at ascending indices `places`: a weighted sum of
 * rows of L. Zero weights are skipped, and the zeros right of the diagonal of L. */
void mh_whiten_form(const double *weights, const int64_t *places, int64_t n, const double *factor,
                    int64_t size, double *out)
{
    const double *four[4];
    double by[4];
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        if (weights[j] == 0.0)
            continue;
        four[count] = factor + places[j] * size;
        by[count++] = weights[j];
        if (count == 4) {
            add_four(out, four, by, mh_min((places[j] + 8) / 8 * 8, size));
            count = 0;
        }
    }
    for (int64_t k = 0; k < count; k++)
        add_one(out, four[k], by[k], mh_min((places[n - 1] + 8) / 8 * 8, size));
}

/* Add the sum over n rows of w_i x_i y_i^T to the lower triangle of `products`, (n_fixed, n_fixed).
 * x_i and y_i are the coefficients from `first` to `last` and from `start` to `stop` of row i. The
 * products of four rows are summed before they are added. */
void mh_add_products(const double *fixed, int64_t n_fixed, const double *weights, int64_t n,
                     int64_t first, int64_t last, int64_t start, int64_t stop, double *products)
{
    const int64_t whole = n - n % 4;
    for (int64_t i = 0; i < whole; i += 4) {
        const double *a = fixed + i * n_fixed, *b = a + n_fixed, *c = b + n_fixed, *d = c + n_fixed;
        const double *lines[] = {a + start, b + start, c + start, d + start};
        for (int64_t j = first; j < last; j++) {
            const double by[] = {weights[i] * a[j], weights[i + 1] * b[j], weights[i + 2] * c[j],
                                 weights[i + 3] * d[j]};
            add_sum_of_four(products + j * n_fixed + start, lines, by, mh_min(stop, j + 1) - start);
        }
    }
    for (int64_t i = whole; i < n; i++)
        for (int64_t j = first; j < last; j++)
            add_one(products + j * n_fixed + start, fixed + i * n_fixed + start,
                    weights[i] * fixed[i * n_fixed + j], mh_min(stop, j + 1) - start);
}

/* ---- Interval arithmetic, rounded outward: functions/interval.py. An infinite end means that
 * there is no bound; no end is ever NaN. ---- */

/* `RELATIVE`, `TINY`: slack far above rounding errors and underflow; `LARGEST`: largest double. */
static const double RELATIVE = 1e-12, TINY = 1e-300, LARGEST = 1.7976931348623157e308;

/* Move a lower end outward; an overflow to +inf counts as the largest number, NaN as no bound. */
static inline double below(double end, double slack)
{
    const double least = mh_smaller(LARGEST, end);
    const double low = least - (fabs(least) * RELATIVE + slack);
    return end != end ? -INFINITY : low;
}

static inline double above(double end, double slack)
{
    const double most = mh_larger(-LARGEST, end);
    const double high = most + (fabs(most) * RELATIVE + slack);
    return end != end ? INFINITY : high;
}

/* Product with 0 * inf = 0: an infinite end stands for arbitrarily large, but finite, numbers. */
static inline double times(double x, double y)
{
    const double product = x * y;
    return product != product ? 0.0 : product;
}

/* Multiply two intervals. Slack must not move an end past zero if no product can lie there. This
 * depends on the signs of the factors only, because a product of 0 may be due to underflow. */
static inline void multiply_two(double a, double b, double c, double d, double *low, double *high)
{
    const double one = times(a, c), two = times(a, d), three = times(b, c), four = times(b, d);
    const double lo = mh_smaller(mh_smaller(four, three), mh_smaller(two, one));
    const double hi = mh_larger(mh_larger(four, three), mh_larger(two, one));
    const double down = below(lo, TINY), up = above(hi, TINY);
    const int zero = ((a == 0.0) & (b == 0.0)) | ((c == 0.0) & (d == 0.0));
    const int never_negative = zero | ((a >= 0.0) & (c >= 0.0)) | ((b <= 0.0) & (d <= 0.0));
    const int never_positive = zero | ((a >= 0.0) & (d <= 0.0)) | ((b <= 0.0) & (c >= 0.0));
    *low = never_negative & (lo >= 0.0) & (down < 0.0) ? 0.0 : down;
    *high = never_positive & (hi <= 0.0) & (up > 0.0) ? 0.0 : up;
}

/* Loop over n pairs of intervals (a, b) and (c, d); a single interval is used for all n. Results
 * are rounded outward; sums need no slack for underflow, and zero remains zero. */
#define FOR_ALL(BODY)                                                                              \
    do {                                                                                           \
        if (n_one < n)                                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                BODY(0, i);                                                                        \
        else if (n_other < n)                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                BODY(i, 0);                                                                        \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                BODY(i, i);                                                                        \
    } while (0)

void mh_multiply_intervals(const double *a, const double *b, int64_t n_one, const double *c,
                           const double *d, int64_t n_other, int64_t n, double *restrict lo,
                           double *restrict hi)
{
#define MULTIPLY(j, k) multiply_two(a[j], b[j], c[k], d[k], lo + i, hi + i)
    FOR_ALL(MULTIPLY);
}

void mh_add_intervals(const double *a, const double *b, int64_t n_one, const double *c,
                      const double *d, int64_t n_other, int64_t n, double *restrict lo,
                      double *restrict hi)
{
#define ADD(j, k) lo[i] = below(a[j] + c[k], 0.0), hi[i] = above(b[j] + d[k], 0.0)
    FOR_ALL(ADD);
}

/* Ranges of a function over n intervals, from its values at their ends. A value that is NaN gives no
 * bounds. */
void mh_ranges_over(const double *from, const double *to, const double *at_from, const double *at_to,
                    const double *slack, int64_t n_slack, int64_t n, const mh_shape *shape,
                    double *restrict lo, double *restrict hi)
{
    const double *valleys = shape->valleys, *peaks = shape->peaks, *limits = shape->limits;
    for (int64_t i = 0; i < n; i++) {
        const double x = at_from[i], y = at_to[i];
        const int known = (x == x) & (y == y);
        double low = mh_smaller(x, y), high = mh_larger(x, y);
        for (int64_t k = 0; k < shape->n_valleys; k++)
            if (from[i] <= valleys[2 * k] && valleys[2 * k] <= to[i])
                low = mh_smaller(low, valleys[2 * k + 1]);
        for (int64_t k = 0; k < shape->n_peaks; k++)
            if (from[i] <= peaks[2 * k] && peaks[2 * k] <= to[i])
                high = mh_larger(high, peaks[2 * k + 1]);
        const double around = slack[n_slack > 1 ? i : 0];
        lo[i] = mh_larger(limits[0], known ? below(low, around) : -INFINITY);
        hi[i] = mh_smaller(limits[1], known ? above(high, around) : INFINITY);
    }
}
