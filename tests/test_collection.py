import gc

import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH, UnsplittableModelError
from pymc_minibatch_mh.collection import collection_paused


def test_collection_is_off_inside_and_as_it_was_afterwards():
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_model_that_is_refused_leaves_collection_on():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a"), observed=[1.0])
    with pytest.raises(UnsplittableModelError):
        TunaMH(model=model)
    assert gc.isenabled()
