"""Libraries that are imported when they are first used."""

import sys

import numpy as np

from later import import_later

LIBRARY = """
import numpy as np

GENERATOR = np.random.default_rng()
"""


def test_a_library_is_loaded_by_its_first_attribute_and_draws_nothing_of_a_test(
    tmp_path, monkeypatch
):
    (tmp_path / "slow_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    import_later(["slow_library"])
    try:
        library = sys.modules["slow_library"]
        assert "GENERATOR" not in object.__getattribute__(library, "__dict__")
        seeds = np.random.default_rng().bit_generator.seed_seq
        own = np.random.default_rng().bit_generator.seed_seq
        assert library.GENERATOR.bit_generator.seed_seq.entropy != seeds.entropy
        following = np.random.default_rng().bit_generator.seed_seq
        assert [s.spawn_key[-1] for s in (own, following)] == [1, 2]
    finally:
        del sys.modules["slow_library"]
