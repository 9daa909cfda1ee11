/* The proposal and the rows of hand-made chains: see toys.py. */
#include "inside.h"

/* The first words of a context, as in toys.py. */
enum { PLACES, STATES, ROWS, SECOND, CALLS, HEAD };

typedef struct toy_jump {
    int64_t n_states;
    int64_t n_weights;
    const double *positions;
    const double *weights;
    const double *sums;
    const double *ratios;
    double *furthest;
} toy_jump;

static double number(const int64_t *context, int64_t place)
{
    double found;
    memcpy(&found, context + place, sizeof found);
    return found;
}

static int64_t state_at(double position, const int64_t *context)
{
    int64_t state = 0;
    for (int64_t k = 1; k < context[STATES]; k++) {
        const double nearest = fabs(number(context, HEAD + state) - position);
        if (fabs(number(context, HEAD + k) - position) < nearest)
            state = k;
    }
    return state;
}

/* Keep how far the whitened position that is handed over is from what it should be. */
static void check_whitened(const mh_chain *chain, double *furthest)
{
    const mh_reference *reference = &chain->posterior.reference;
    const mh_move *move = &chain->move;
    for (int64_t k = 0; k < reference->size; k++) {
        double here = 0.0;
        for (int64_t m = 0; m <= k; m++)
            here += reference->whitener[k * reference->size + m] *
                    (move->position[m] - reference->centre[m]);
        *furthest = mh_larger(*furthest, fabs(here - move->here[k]));
    }
}

mh_status toy_propose(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status toy_propose(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const toy_jump *jump = proposal;
    const mh_move *move = &chain->move;
    const int64_t n = jump->n_states;
    const double position = move->position[0];
    int64_t i = 0, j = 0;
    for (int64_t k = 1; k < n; k++)
        if (fabs(jump->positions[k] - position) < fabs(jump->positions[i] - position))
            i = k;
    const int64_t first = mh_uniform(&chain->generator) < jump->weights[0];
    const int64_t component = first ? 0 : jump->n_weights - 1;
    const double uniform = mh_uniform(&chain->generator);
    while (j < n - 1 && uniform >= jump->sums[(component * n + i) * n + j])
        j++;
    check_whitened(chain, jump->furthest);
    mh_copy_to(move->new, move->position, chain->posterior.reference.size);
    /* A position beside its state ends on the other side of the next one, and finds back. */
    move->new[0] = jump->positions[j] + (jump->positions[i] - position);
    *out = (mh_proposed){jump->ratios[(component * n + i) * n + j], component};
    return MH_OK;
}

double toy_prior(const double *position, const int64_t *context);
double toy_prior(const double *position, const int64_t *context)
{
    return number(context, HEAD + context[STATES] + state_at(position[0], context));
}

/* The number of a row, read from where places are, or remembered from the call before. */
static int64_t row_of(int64_t row, int64_t k, int64_t memory, int64_t *context)
{
    if (context[PLACES] != 0)
        row = ((const int64_t *)(uintptr_t)context[PLACES])[row];
    if (context[CALLS] < 0)
        return row;
    if (context[CALLS] % 2 == 0)
        context[memory + k] = row;
    return context[memory + k];
}

void toy_differences(const double *position, const double *new_position, const double *centre, const int64_t *rows, const int64_t *ends, const int64_t *constant, double *differences, double *scales);
void toy_differences(const double *position, const double *new_position, const double *centre,
                     const int64_t *rows, const int64_t *ends, const int64_t *constant,
                     double *differences, double *scales)
{
    int64_t *context = (int64_t *)(uintptr_t)constant;
    const int64_t states = context[STATES], table = HEAD + 2 * states;
    const int64_t memory = table + states * context[ROWS];
    const int64_t here = table + state_at(position[0], context) * context[ROWS];
    const int64_t there = table + state_at(new_position[0], context) * context[ROWS];
    (void)centre;
    for (int64_t k = 0; k < ends[context[SECOND] > 0]; k++) {
        const int64_t own = rows[k] + (k >= ends[0] ? context[SECOND] : 0);
        const int64_t row = row_of(own, k, memory, context);
        differences[k] = number(context, there + row);
        if (states > 1)
            differences[k] -= number(context, here + row);
        scales[k] = 1.0;
    }
    if (context[CALLS] >= 0)
        context[CALLS]++;
}

/* The same M for every move. */
double toy_metric(const double *position, const double *new_position, int64_t size);
double toy_metric(const double *position, const double *new_position, int64_t size)
{
    (void)position, (void)new_position, (void)size;
    return 2.0;
}
