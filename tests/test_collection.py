import gc

import pytest

from pymc_minibatch_mh import _collection_paused


def test_collection_is_off_inside_and_as_it_was_afterwards():
    with _collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with _collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_inside_leaves_collection_on():
    with pytest.raises(ValueError, match="inside"), _collection_paused():
        raise ValueError("inside")
    assert gc.isenabled()
