"""The scripts of the benchmarks run, on little data; what they print is not looked at."""

from weakref import WeakValueDictionary

from benchmarks.change_point import line
from benchmarks.figures import _setup_turn, logistic_data
from pymc_minibatch_mh.compiled import scalars


def test_a_turn_of_the_setup_compiles_again(monkeypatch):
    made = []
    compile_ = scalars._compile

    def counted(wrapper, signature, graph, name):
        made.append(name)
        return compile_(wrapper, signature, graph, name)

    monkeypatch.setattr(scalars, "_compile", counted)
    # Models of other tests may not have been collected yet.
    monkeypatch.setattr(scalars, "_compiled", WeakValueDictionary())
    _setup_turn(*logistic_data(2_000, size=2))
    # Once for the step, and once for the clock.
    half = len(made) // 2
    assert half > 0
    assert sorted(made[:half]) == sorted(made[half:])


def test_a_smooth_change_point_is_measured():
    level, width, tau, sd, *_ = map(float, line(5.0, 1.5, rows=4_000, draws=500).split()[:5])
    assert (level, width) == (1.5, 5.0)
    assert 30.0 < tau < 50.0
    assert sd < 3.0
