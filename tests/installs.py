"""A wheel in an environment of its own: ``python tests/installs.py [PYTHON] [RESOLUTION]``.

The environment holds what the wheel asks for and nothing else. RESOLUTION is uv's: highest, or
lowest-direct for the oldest versions that pyproject.toml allows.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PROGRAM = """
import numpy as np, pymc as pm, pymc_minibatch_mh
from importlib.metadata import version

rng = np.random.default_rng(1)
x = rng.normal(size=5_000)
with pm.Model():
    slope = pm.Normal("slope")
    pm.Normal("y", slope * x, 1.0, observed=rng.normal(2.0 * x))
    step = pymc_minibatch_mh.TunaMH()
    trace = pm.sample(500, step=step, chains=2, cores=1, random_seed=1, progressbar=False)
mean = float(trace.posterior["slope"].mean())
assert abs(mean - 2.0) < 0.1, mean
assert pymc_minibatch_mh.__version__ == version("pymc-minibatch-mh")
print(pymc_minibatch_mh.__file__)
"""


def sampled_from_a_wheel(python: str, resolution: str) -> str:
    """Build the wheel, install it, sample with it, and return where the package lies."""
    # `uv run` says where it is.
    uv = os.environ.get("UV") or shutil.which("uv") or "uv"
    with TemporaryDirectory() as folder:
        place = Path(folder)
        # Variables of this environment would lead the new one to its packages.
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env["PYTENSOR_FLAGS"] = f"base_compiledir={place / 'compiled'}"

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
            return done.stdout

        run(uv, "build", "--wheel", "--out-dir", str(place), str(ROOT))
        (wheel,) = place.glob("*.whl")
        run(uv, "venv", "--python", python, str(place / "venv"))
        folder_of_python = "Scripts" if os.name == "nt" else "bin"
        own = str(place / "venv" / folder_of_python / "python")
        run(uv, "pip", "install", "--python", own, "--resolution", resolution, str(wheel))
        return run(own, "-c", PROGRAM).splitlines()[-1]


if __name__ == "__main__":
    wanted = dict(enumerate(sys.argv))
    print(sampled_from_a_wheel(wanted.get(1, "3.12"), wanted.get(2, "highest")))
