"""Comparisons that the conformance tests share."""

import numpy as np


def same_draws(one, other):
    """Assert that two traces agree bit for bit, except in the seconds that they took."""
    for group in ("posterior", "sample_stats"):
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name in set(one[group].data_vars) - {"perf_counter_diff"}:
            np.testing.assert_array_equal(one[group][name], other[group][name], err_msg=name)


def same_state(one, other):
    """Assert that two sampling states agree in every field."""
    for name, value in vars(one).items():
        if name == "rng":
            assert repr(value.bit_generator_state) == repr(other.rng.bit_generator_state)
        elif name == "chain_state":
            for field, own in vars(value).items():
                np.testing.assert_equal(own, getattr(other.chain_state, field), err_msg=field)
        else:
            assert value == getattr(other, name), name


def run(step, point, draws, stop_at=None):
    """Return the positions of `draws` draws and the last point; end warm-up before `stop_at`."""
    positions = []
    for k in range(draws):
        if k == stop_at:
            step.stop_tuning()
        point, _ = step.step(point)
        positions.append(np.concatenate([np.ravel(value) for value in point.values()]))
    return np.array(positions), point
