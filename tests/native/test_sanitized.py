"""A library that is compiled with sanitizers sees what is written behind a piece of scratch."""

import pytest

from mutants.c_sources import Change, survives
from native.sanitized import environment, sanitizers
from pymc_minibatch_mh.native import compiler

OWN = next(compiler.find_compilers(), None)
LIBRARIES = sanitizers(OWN.command) if OWN else []
TAKEN = "*large = mh_take(scratch, n, int32_t)"
KILLER = "native/test_alias.py::test_chances_are_the_weights[equal]"


@pytest.mark.slow
@pytest.mark.skipif(not LIBRARIES, reason="no compiler has AddressSanitizer and UBSan")
def test_a_piece_that_is_too_short_is_noticed(tmp_path):
    short = Change("draw.c", "mh_build_alias", TAKEN, TAKEN.replace("n,", "n - 1,"))
    watched = environment(LIBRARIES)
    assert survives((), KILLER, tmp_path / "own", **watched)
    assert not survives((short,), KILLER, tmp_path / "short", **watched)
    # Without sanitizers nobody sees it.
    assert survives((short,), KILLER, tmp_path / "unwatched")
