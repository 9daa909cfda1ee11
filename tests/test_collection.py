import gc
import os

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


def test_a_file_is_left_to_one_worker(request):
    """By what pytest-xdist appends to the name of a test, which some versions do not read."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@tests/test_collection.py")
