/* Coordinates of common and group effects, and conditional normals of the effects of a factor.
 *
 * Normal approximations of the prior use finite differences of the effects' log-densities, at the
 * same points for the forward and the reverse proposal; they do not affect the posterior. */
#include "elements.h"

void mh_begin_move(mh_iteration *on)
{
    mh_copy_to(on->move->new, on->move->position, on->posterior->reference.size);
    mh_copy_to(on->new_e, on->e, on->geometry->n_elements + on->geometry->n_chosen);
}

void mh_accept_move(mh_iteration *on, double new_prior)
{
    mh_copy_to(on->move->position, on->move->new, on->posterior->reference.size);
    mh_copy_to(on->e, on->new_e, on->geometry->n_elements + on->geometry->n_chosen);
    on->prior = new_prior;
}

void mh_follow_border(const mh_iteration *on, const double *w)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t size = geometry->n_elements;
    mh_fill(on->moved, size, 0.0);
    mh_add_lines(geometry->response, size, w, geometry->n_border, 0, size, on->moved);
}

/* Length ||Q w|| of the common effects that are not indexed by data. */
double mh_length_of_border(const mh_iteration *on, const double *w)
{
    const int64_t n = on->geometry->n_border;
    double total = 0.0;
    for (int64_t i = 0; i < on->geometry->n_read; i++)
        total += mh_square(mh_inner(on->geometry->read + i * n, w, n));
    return sqrt(total);
}

void mh_stay_on_border(mh_iteration *on)
{
    double *border = on->ends.border;
    border[0] = border[1] = mh_length_of_border(on, on->w);
    border[2] = 0.0;
}

/* Write data-indexed common effects, relative to the centre, to `e` after the group effects. */
void mh_find_chosen(const mh_iteration *on, const double *position, double *e)
{
    const mh_geometry *geometry = on->geometry;
    const double *centre = on->posterior->reference.centre;
    for (int64_t k = 0; k < geometry->n_chosen; k++) {
        const int64_t i = geometry->border[geometry->chosen[k]];
        e[geometry->n_elements + k] = position[i] - centre[i];
    }
}

/* Write the coordinates w and e of the chain's position, and R w. */
void mh_find_coordinates(mh_iteration *on)
{
    const mh_geometry *geometry = on->geometry;
    const double *centre = on->posterior->reference.centre, *position = on->move->position;
    const int64_t n = geometry->n_border;
    for (int64_t j = 0; j < n; j++)
        on->away[j] = position[geometry->border[j]] - centre[geometry->border[j]];
    mh_inner_of_lines(geometry->whitener, n, on->away, n, 0, n, on->w);
    mh_follow_border(on, on->w);
    for (int64_t g = 0; g < geometry->n_elements; g++) {
        const int64_t i = geometry->places[g];
        on->e[g] = position[i] - centre[i] - on->moved[g];
    }
    mh_find_chosen(on, position, on->e);
}

void mh_write_elements(const mh_iteration *on, const double *e, int64_t f, double *position)
{
    const double *centre = on->posterior->reference.centre;
    for (int64_t g = on->parts->first[f]; g < on->parts->first[f + 1]; g++) {
        const int64_t i = on->geometry->places[g];
        position[i] = centre[i] + on->moved[g] + e[g];
    }
}

void mh_densities_of(const mh_iteration *on, int64_t f, const double *position, double *out)
{
    const int64_t *context = on->posterior->rows.context;
    on->geometry->densities[f](position, context, out + on->parts->first[f]);
}

/* Central differences use a step of one standard deviation. If they are not finite, as at the end
 * of a support, the slope is 0 and the precision is that at the centre. */
void mh_expand_prior(const mh_iteration *on, int64_t f, const double *e, double *position,
                     double *slopes, double *precisions)
{
    const int64_t low = on->parts->first[f], high = on->parts->first[f + 1];
    const int64_t order[3] = {0, 2, 1}, *places = on->geometry->places;
    const double *sd = on->geometry->sd, *centre = on->posterior->reference.centre;
    for (int64_t i = 0; i < 3; i++) {
        const double steps = (double)(order[i] - 1);
        for (int64_t g = low; g < high; g++)
            position[places[g]] = centre[places[g]] + on->moved[g] + e[g] + steps * sd[g];
        mh_densities_of(on, f, position, on->at[order[i]]);
    }
    const double *values[3] = {on->at[0] + low, on->at[1] + low, on->at[2] + low};
    mh_bend_of(values, sd + low, on->geometry->precisions + low, high - low, slopes + low,
               precisions + low);
}

void mh_find_slopes(const mh_iteration *on, int64_t f)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t low = on->parts->first[f], high = on->parts->first[f + 1];
    mh_copy_to(on->slope + low, geometry->slopes + low, high - low);
    mh_add_lines(geometry->between, geometry->n_elements, on->w, geometry->n_border, low, high,
                 on->slope);
    for (int64_t g = low; g < high; g++) {
        double slope = on->slope[g];
        for (int64_t k = geometry->cell_starts[g]; k < geometry->cell_starts[g + 1]; k++)
            slope += geometry->cells[k] * on->e[geometry->cell_elements[k]];
        on->slope[g] = on->beta * slope;
    }
}

void mh_condition(const mh_iteration *on, int64_t f, const double *prior_slopes,
                  const double *prior_precisions)
{
    const mh_geometry *geometry = on->geometry;
    for (int64_t g = on->parts->first[f]; g < on->parts->first[f + 1]; g++) {
        const double least = MH_LEAST_SHARE / (geometry->sd[g] * geometry->sd[g]);
        const double slope = on->slope[g] + on->beta * geometry->tilts[g] + prior_slopes[g];
        on->precision[g] =
            mh_larger(prior_precisions[g] - on->beta * geometry->hessian[g], least);
        on->mean[g] = slope / on->precision[g];
    }
}

void mh_condition_here(mh_iteration *on, int64_t f)
{
    if (!on->expanded)
        mh_expand_prior(on, f, on->zeros, on->move->new, on->prior_slope, on->prior_precision);
    on->expanded = 1;
    mh_condition(on, f, on->prior_slope, on->prior_precision);
}
