/* The sequential test with a design for every update: see per_update.py. */
#include "inside.h"

/* Functions of the library are called by their addresses. */
typedef mh_status (*scan)(const mh_posterior *posterior, const mh_move *move, double *mean, double *variance, double *largest, mh_arena *scratch);

typedef struct per_update_test {
    int64_t n_designs;
    const double *distances;    /* smallest |mu_std| that a design is for, ascending from 0 */
    const int64_t *batch_sizes; /* the designs, (n_designs,) */
    const double *epsilons;
    double third_moment;
    double kappa;
    scan scan_rows;
    mh_decide look;
    mh_sample_size sample_size;
    mh_decide_batch decide_batch;
} per_update_test;

/* The test of one update, and its uniform number, which was drawn before the scan. */
typedef struct chosen_test {
    mh_austere_test austere;
    mh_decide_batch decide_batch;
    double uniform;
} chosen_test;

static mh_status decide_by_chosen(const void *settings, const mh_look *look, mh_verdict *out)
{
    const chosen_test *test = settings;
    mh_look own = *look;
    own.uniform = test->uniform;
    return test->decide_batch(&test->austere, &own, out);
}

/* The last design that is for a distance. Where nothing can be said, the test of the farthest moves
 * meets the same rows and rejects. */
static int64_t design_for(const per_update_test *test, double distance)
{
    int64_t k = test->n_designs - 1;
    while (k > 0 && test->distances[k] > distance)
        k--;
    return k;
}

mh_status per_update_decide(const void *settings, mh_chain *chain, double cheap, mh_counts *counts,
                            mh_decision *out);

/* Scan all rows, choose a test for what they say, and run it on rows drawn anew. The scan is counted
 * as read rows, and as a full pass. */
mh_status per_update_decide(const void *settings, mh_chain *chain, double cheap, mh_counts *counts,
                            mh_decision *out)
{
    const per_update_test *test = settings;
    const mh_rows *rows = &chain->posterior.rows;
    const double beta = chain->posterior.reference.inverse_temperature;
    const double total = (double)rows->term_starts[rows->n_terms];
    const double uniform = mh_uniform(&chain->generator);
    double mean, variance, largest;
    mh_status status = test->scan_rows(&chain->posterior, &chain->move, &mean, &variance, &largest,
                                       chain->scratch);
    if (status != MH_OK)
        return status;
    const double threshold = uniform > 0.0 ? log(uniform) : -INFINITY;
    const double gap = fabs(cheap + beta * total * mean - threshold);
    const double sd = beta * total * sqrt(variance / (total - 1.0));
    const int64_t k = design_for(test, sd > 0.0 ? gap / sd : INFINITY);
    const mh_austere_test austere = {
        .batch_size = test->batch_sizes[k], .third_moment = test->third_moment,
        .kappa = test->kappa, .epsilon = test->epsilons[k], .boundary = 0.5, .limit = INFINITY};
    const chosen_test chosen = {austere, test->decide_batch, uniform};
    const mh_batch_test looks = {test->sample_size, decide_by_chosen, test->kappa, &chosen};
    status = test->look(&looks, chain, cheap, counts, out);
    counts->n_obs += total;
    counts->full_pass += out->n_obs < total;
    return status;
}
