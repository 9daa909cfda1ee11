import pytest

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling.trace import recorded
from sampling import models


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["slope", "sgima"], r"var_names= has 'sgima', .* Choose from \['slope', 'sigma'"),
        (["slope", "sigma_log__"], "has 'sigma_log__', which is no free variable"),
        (["slope", "y"], "has 'y', which is no free variable"),
        (["slope", "slope"], "has 'slope' twice"),
        ([], "is no list of names"),
        ("slope", "var_names='slope' is no list of names"),
        (["wide", "mu"], "large deterministics only, .* such as 'slope'"),
    ],
)
def test_names_that_cannot_be_kept_are_refused(names, said):
    model = models.tall()
    with pytest.raises(SettingError, match=said):
        recorded(model, model.initial_point(), names)


def test_named_large_deterministics_are_kept_apart():
    model = models.tall()
    kept = recorded(model, model.initial_point(), ["wide", "slope"])
    assert [v.name for v in kept.variables] == ["slope"]
    assert [(one.name, one.shape) for one, _ in kept.large] == [("wide", (models.MANY, 2))]
