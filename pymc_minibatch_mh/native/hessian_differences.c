/* Third derivatives of rows as differences of Hessians, for functions of very many operations:
 *
 *     f_abc = [f_bc(u + h e_a) - f_bc(u - h e_a)] / 2h + O(h^2).
 *
 * With h near the third root of a rounding error, truncation and rounding are of order 1e-10. */
#include "groups.h"

static const double STEP = 1e-5;

int64_t mh_room_of_hessians(const mh_hessian_rows *rows)
{
    return rows->n_arguments + rows->n_taken + 2 * mh_width_of_slopes(rows->n_arguments);
}

/* Write third derivatives in predictor a and any two from a on; `line` has inputs and is restored. */
static void differentiate(const mh_hessian_rows *rows, int64_t a, double *line, double *out)
{
    const int64_t m = rows->n_arguments;
    double *below = line + m + rows->n_taken, *above = below + mh_width_of_slopes(m);
    const double u = line[a], step = STEP * fmax(1.0, fabs(u)), low = u - step, high = u + step;
    line[a] = low;
    rows->slopes(line, below, 1);
    line[a] = high;
    rows->slopes(line, above, 1);
    line[a] = u;
    for (int64_t b = a; b < m; b++)
        for (int64_t c = b; c < m; c++) {
            const int64_t at = mh_second(m, b, c);
            *out++ = (above[at] - below[at]) / (high - low);
        }
}

void mh_thirds_by_differences(const mh_hessian_rows *rows, const double *inputs, double *outputs,
                              int64_t n, double *scratch)
{
    const int64_t m = rows->n_arguments, width = m + rows->n_taken;
    for (int64_t i = 0; i < n; i++, inputs += width) {
        mh_copy_to(scratch, inputs, width);
        for (int64_t a = 0; a < m; a++) {
            differentiate(rows, a, scratch, outputs);
            outputs += (m - a) * (m - a + 1) / 2;
        }
    }
}
