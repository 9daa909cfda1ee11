/* What a loader checks: how the compiler laid records out, and which sources these are. */
#include "inside.h"

#ifndef MH_DIGEST
#define MH_DIGEST unknown
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LAYOUT(record) {#record, sizeof(record)}

const mh_layout *mh_layouts(void)
{
    static const mh_layout all[] = {
        LAYOUT(mh_bits), LAYOUT(mh_generator), LAYOUT(mh_leaf), LAYOUT(mh_piece), LAYOUT(mh_term),
        LAYOUT(mh_rows), LAYOUT(mh_reference), LAYOUT(mh_table), LAYOUT(mh_supply), LAYOUT(mh_copy),
        LAYOUT(mh_bounds), LAYOUT(mh_posterior), LAYOUT(mh_move), LAYOUT(mh_slices),
        LAYOUT(mh_counts), LAYOUT(mh_tally), LAYOUT(mh_proposed), LAYOUT(mh_decision),
        LAYOUT(mh_chain), LAYOUT(mh_mixture), LAYOUT(mh_bordered), LAYOUT(mh_scale_conditional),
        LAYOUT(mh_by_scales), LAYOUT(mh_walk), LAYOUT(mh_langevin), LAYOUT(mh_batch),
        LAYOUT(mh_handed), LAYOUT(mh_own_move), LAYOUT(mh_poisson_test), LAYOUT(mh_look),
        LAYOUT(mh_verdict), LAYOUT(mh_batch_test), LAYOUT(mh_barker_test), LAYOUT(mh_austere_test),
        LAYOUT(mh_penalty_test), LAYOUT(mh_own_test), LAYOUT(mh_confidence_test),
        LAYOUT(mh_brightness), LAYOUT(mh_firefly_test), LAYOUT(mh_levels_test), LAYOUT(mh_parts),
        LAYOUT(mh_geometry), LAYOUT(mh_kind_tally), LAYOUT(mh_element_chain), LAYOUT(mh_layout),
        LAYOUT(mh_ends), LAYOUT(mh_moments), LAYOUT(mh_drawn), LAYOUT(mh_products),
        LAYOUT(mh_place), LAYOUT(mh_part_ends), LAYOUT(mh_rates), LAYOUT(mh_forms),
        {NULL, 0},
    };
    return all;
}

const char *mh_digest(void) { return TEXT(MH_DIGEST); }
