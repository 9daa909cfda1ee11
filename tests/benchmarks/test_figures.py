"""The scripts of the benchmarks run, on little data; what they print is not looked at."""

from benchmarks.figures import _setup_turn, logistic_data
from pymc_minibatch_mh.model.compiled import scalars


def test_a_turn_of_the_setup_compiles_again(monkeypatch):
    made = []
    compile_ = scalars._compile

    def counted(wrapper, signature, graph, name):
        made.append(name)
        return compile_(wrapper, signature, graph, name)

    monkeypatch.setattr(scalars, "_compile", counted)
    _setup_turn(*logistic_data(2_000, size=2))
    # Once for the step, and once for the clock.
    half = len(made) // 2
    assert half > 0
    assert sorted(made[:half]) == sorted(made[half:])
