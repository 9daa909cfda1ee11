/* The loop of a chain: propose, test, update and record; also functions for single steps.
 *
 * The loop does not depend on the test or the proposal, and calls both by address. */
#include "inside.h"

/* Indices of `outcomes` of a repeated test: sums of the probability p, of p^2 and of evaluated
 * rows; and the minimum number of rows. */
enum { TOTAL, SQUARES, ROWS, FEWEST };

/* Add a proposal to the tally of its component; jumps are in posterior standard deviations. */
static void add_to_tally(mh_tally *tally, const mh_move *move, int64_t size,
                         const mh_decision *decision)
{
    double jump = 0.0, square_jump = 0.0;
    for (int64_t i = 0; i < size; i++) {
        const double before = move->here[i], after = move->there[i];
        jump += move->step[i] * move->step[i];
        square_jump += mh_square(after * after - before * before);
    }
    tally->tried += 1.0;
    tally->accept += decision->probability;
    tally->jump += decision->probability * jump;
    tally->square_jump += decision->probability * square_jump;
    tally->rows += decision->n_obs;
}

static void whiten_position(mh_chain *chain, double *difference)
{
    const mh_reference *reference = &chain->posterior.reference;
    const mh_move *move = &chain->move;
    mh_whiten(reference->whitener, move->position, reference->centre, reference->size, difference,
              move->here);
}

static void whiten_proposal(mh_chain *chain, double *difference)
{
    const mh_reference *reference = &chain->posterior.reference;
    const mh_move *move = &chain->move;
    const double *whitener = reference->whitener;
    mh_whiten(whitener, move->new, reference->centre, reference->size, difference, move->there);
    mh_whiten(whitener, move->new, move->position, reference->size, difference, move->step);
}

/* Write a proposal, and its change of the control variates, which enters its log ratio. */
static mh_status propose(mh_chain *chain, mh_proposed *out, double *change)
{
    const mh_move *move = &chain->move;
    MH_TRY(chain->propose(chain->proposal, chain, out));
    return mh_expansion_change(&chain->posterior.reference, move->position, move->new, change,
                               chain->scratch);
}

/* Reject a proposal whose log ratio is not finite before any row is evaluated. */
static void reject_invalid(mh_chain *chain, int64_t component, mh_counts *counts)
{
    counts->invalid += 1.0;
    counts->log_ratio = -INFINITY;
    counts->log_ratio_std = 0.0;
    if (component != MH_UNTALLIED)
        chain->tallies[component].tried += 1.0;
}

void mh_keep_worst_move(mh_chain *chain, double largest, const mh_counts *counts)
{
    const int64_t size = chain->posterior.reference.size;
    if (counts->bound_ratio <= mh_larger(largest, 1.0))
        return;
    mh_copy_to(chain->worst_move, chain->move.position, size);
    mh_copy_to(chain->worst_move + size, chain->move.new, size);
}

static mh_status decide(mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out)
{
    const double largest = counts->bound_ratio;
    const mh_status status = chain->decide(chain->test, chain, cheap, counts, out);
    mh_keep_worst_move(chain, largest, counts);
    return status;
}

/* Propose, then accept or reject; `prior` is the position's log prior, updated in place. */
static mh_status move_once(mh_chain *chain, double *difference, double *prior,
                           mh_counts *counts)
{
    const int64_t size = chain->posterior.reference.size;
    const mh_move *move = &chain->move;
    mh_proposed proposed;
    mh_decision decision;
    double change;
    MH_TRY(propose(chain, &proposed, &change));
    const double new_prior = mh_prior_at(&chain->posterior, move->new);
    const double cheap = new_prior - *prior + proposed.log_q + change;
    if (!isfinite(cheap)) {
        reject_invalid(chain, proposed.component, counts);
        return MH_OK;
    }
    whiten_proposal(chain, difference);
    MH_TRY(decide(chain, cheap, counts, &decision));
    counts->accept += decision.probability;
    counts->n_obs += decision.n_obs;
    if (proposed.component != MH_UNTALLIED)
        add_to_tally(chain->tallies + proposed.component, move, size, &decision);
    if (decision.accepted) {
        counts->accepted += 1.0;
        mh_copy_to(move->position, move->new, size);
        mh_copy_to(move->here, move->there, size);
        *prior = new_prior;
    }
    return MH_OK;
}

/* Make slice updates along directions in which no row changes; update the log prior in place. */
static mh_status move_without_rows(mh_chain *chain, double *difference, double *prior,
                                   mh_counts *counts)
{
    const mh_posterior *posterior = &chain->posterior;
    int64_t evaluations = 0;
    MH_TRY(mh_move_without_rows(chain->move.position, posterior->reference.size, &chain->slices,
                                posterior->prior, posterior->rows.context, &chain->generator,
                                prior, &evaluations, chain->scratch));
    counts->n_prior += (double)evaluations;
    whiten_position(chain, difference);
    return MH_OK;
}

/* Make one update: a proposal, then slice updates of the null space if there are any. */
static mh_status update(mh_chain *chain, double *difference, double *prior, mh_counts *counts)
{
    MH_SCOPE(chain->scratch);
    MH_TRY(move_once(chain, difference, prior, counts));
    return chain->slices.moves ? move_without_rows(chain, difference, prior, counts) : MH_OK;
}

/* Move the count of groups' rows to the counts of a draw. */
static void take_group_rows(const mh_posterior *posterior, mh_counts *counts)
{
    if (!posterior->rows.groups || !posterior->group_rows)
        return;
    counts->n_rows += *posterior->group_rows;
    counts->n_at_nodes += *posterior->group_rows * (double)posterior->rows.groups->n_nodes;
    *posterior->group_rows = 0.0;
}

mh_status mh_run(mh_chain *chain, int64_t updates, int64_t n_draws, double *draws,
                 mh_counts *counts, int64_t *made)
{
    const int64_t size = chain->posterior.reference.size;
    const double *position = chain->move.position;
    mh_status status = MH_OK;
    *made = 0;
    MH_SCOPE(chain->scratch);
    MH_VECTOR(double, difference, chain->scratch, size);
    double prior = mh_prior_at(&chain->posterior, position);
    whiten_position(chain, difference);
    for (; *made < n_draws && status == MH_OK; ++*made) {
        mh_counts *counted = counts + *made;
        for (int64_t k = 0; k < updates && status == MH_OK; k++)
            status = update(chain, difference, &prior, counted);
        take_group_rows(&chain->posterior, counted);
        mh_copy_to(draws + *made * size, position, size);
    }
    return status;
}

mh_status mh_propose_once(mh_chain *chain, const double *position, double *new_position,
                          double *cheap)
{
    const mh_posterior *posterior = &chain->posterior;
    const mh_move *move = &chain->move;
    const int64_t size = posterior->reference.size;
    mh_proposed proposed;
    double change;
    MH_SCOPE(chain->scratch);
    mh_copy_to(move->position, position, size);
    whiten_position(chain, move->step);
    MH_TRY(propose(chain, &proposed, &change));
    mh_copy_to(new_position, move->new, size);
    const double new_prior = mh_prior_at(posterior, new_position);
    *cheap = new_prior - mh_prior_at(posterior, position) + proposed.log_q + change;
    return MH_OK;
}

/* Repeat a test. Adds to `outcomes`, (4,): sums of the acceptance probability p, of p^2 and of
 * rows, and the minimum number of rows. With `by_verdict` p is the verdict, 0 or 1, for a test that
 * only gives the probability of a single look. A violated bound ends the repetitions. */
mh_status mh_repeat_test(mh_chain *chain, const double *position, const double *new_position,
                         double cheap, int64_t repetitions, int64_t by_verdict, double *outcomes)
{
    const int64_t size = chain->posterior.reference.size;
    MH_SCOPE(chain->scratch);
    MH_VECTOR(double, difference, chain->scratch, size);
    mh_copy_to(chain->move.position, position, size);
    mh_copy_to(chain->move.new, new_position, size);
    whiten_position(chain, difference);
    whiten_proposal(chain, difference);
    for (int64_t k = 0; k < repetitions; k++) {
        MH_SCOPE(chain->scratch);
        mh_counts counts = {0};
        mh_decision decision;
        MH_TRY(chain->decide(chain->test, chain, cheap, &counts, &decision));
        const double probability = by_verdict ? (double)decision.accepted : decision.probability;
        outcomes[TOTAL] += probability;
        outcomes[SQUARES] += probability * probability;
        /* Row counts are in decision.n_obs, or in counts.n_obs if the test counts rows itself. */
        outcomes[ROWS] += decision.n_obs + counts.n_obs;
        outcomes[FEWEST] = mh_smaller(outcomes[FEWEST], decision.n_obs);
    }
    return MH_OK;
}
