"""The wheel holds all that a user needs, in an environment where nothing else is."""

import sys

import pytest

from installs import sampled_from_a_wheel

VERSION = "{}.{}".format(*sys.version_info)


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_a_wheel_samples_in_an_environment_of_its_own(resolution):
    assert "site-packages" in sampled_from_a_wheel(VERSION, resolution)
