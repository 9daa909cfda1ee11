"""Fourteen models of real data, one module each, with a function that returns the model.

    cd examples
    python -m uv run --group gallery python -m real_data.run NAME

samples one with `TunaMH` and with NUTS, and stores the figures that its page in the documentation
shows; ``python -m real_data.page`` writes the pages.
"""

#: Modules with a model, in the order of the gallery.
NAMES = (
    "mothers_at_work",
    "wages_by_state",
    "doctor_visits",
    "county_murders",
    "happiness",
    "employment",
    "graduates_at_work",
    "hours_of_mothers",
    "back_in_new_york",
    "veterans_homes",
    "minutes_in_the_air",
    "longest_delays",
    "late_by_season",
    "wages_with_outliers",
)
#: Chains of both samplers, one after the other; draws of `TunaMH` after its warm-up, and of NUTS
#: after as many of warm-up.
CHAINS, TUNE, DRAWS, NUTS_DRAWS = 2, 5_000, 20_000, 500
#: Seed of both samplers.
SEED = 1
