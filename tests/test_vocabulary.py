"""One thing has one name on the whole public surface."""

import inspect

import pymc_minibatch_mh

#: Words for a trace and for a seed that the surface does not use: it says `data` and `random_seed`.
OTHER_WORDS = {"idata", "dt", "trace", "seed", "thin"}


def callables():
    """Yield the public functions and classes, and the public methods of these, by name."""
    for name in pymc_minibatch_mh.__all__:
        thing = getattr(pymc_minibatch_mh, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            continue
        yield name, thing
        for part, method in inspect.getmembers(thing, inspect.isfunction):
            own = method.__module__.partition(".")[0] == pymc_minibatch_mh.__name__
            if isinstance(thing, type) and own and not part.startswith("_"):
                yield f"{name}.{part}", method


def other_words(thing):
    """Return the parameters of a function or class whose names are other words."""
    return OTHER_WORDS & set(inspect.signature(thing).parameters)


def test_traces_are_data_and_seeds_random_seed():
    assert {name: other_words(thing) for name, thing in callables() if other_words(thing)} == {}


def test_another_word_is_noticed():
    def plot(dt, *, seed=None):
        pass

    assert other_words(plot) == {"dt", "seed"}
