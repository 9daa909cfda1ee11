"""A wheel in an environment of its own.

Usage: ``python docs/tools/installs.py [PYTHON] [RESOLUTION] [EXTRAS] [TAG]``.

The environment holds what the wheel asks for and nothing else. RESOLUTION is uv's: highest, or
lowest-direct for the oldest versions that pyproject.toml allows. EXTRAS are some of ``arrow``,
``dask``, ``netcdf`` and ``zarr``, with commas between, each of which is used once. The wheel is
built for this machine, or is the one in ``dist`` with a TAG, which ``.ci/wheels`` has built.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np, pymc as pm, pymc_minibatch_mh
from importlib.metadata import version
from pathlib import Path

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
# The library is that of the wheel: nothing was compiled here.
assert not Path(pymc_minibatch_mh.__file__).with_name("native").joinpath(".objects").exists()
from pymc_minibatch_mh import Rows

"""
#: Extra -> how its package reads rows back, or a trace.
EXTRAS = {
    "arrow": """
import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"x": x}), "rows.parquet")
found = Rows.from_parquet("rows.parquet").storage.read(["x"], slice(None))["x"]
np.testing.assert_array_equal(found, x)
""",
    "dask": """
import dask.array as da
found = Rows.from_dask(x=da.from_array(x, chunks=1_000)).storage.read(["x"], slice(None))["x"]
np.testing.assert_array_equal(found, x)
""",
    "netcdf": """
import xarray as xr
trace.to_netcdf("trace.nc")
assert float(xr.open_datatree("trace.nc")["posterior"]["slope"].mean()) == mean
""",
    "zarr": """
import zarr
zarr.open_group("rows.zarr", mode="w").create_array("x", data=x, chunks=(1_000,))
found = Rows.from_zarr("rows.zarr").storage.read(["x"], slice(None))["x"]
np.testing.assert_array_equal(found, x)
""",
}
LAST = "print(pymc_minibatch_mh.__file__)"


def sampled_from_a_wheel(python: str, resolution: str, extras: str = "", tag: str = "") -> str:
    """Build the wheel, or take one, install it, sample with it; return where the package lies."""
    names = [name for name in extras.split(",") if name]
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

        if not tag:
            run(uv, "build", "--wheel", "--out-dir", str(place), str(ROOT))
        (wheel,) = (ROOT / "dist" if tag else place).glob(f"*{tag}.whl")
        run(uv, "venv", "--python", python, str(place / "venv"))
        folder_of_python = "Scripts" if os.name == "nt" else "bin"
        own = str(place / "venv" / folder_of_python / "python")
        wanted = f"{wheel}[{','.join(names)}]" if names else str(wheel)
        run(uv, "pip", "install", "--python", own, "--resolution", resolution, wanted)
        program = "".join([PROGRAM, *(EXTRAS[name] for name in names), LAST])
        return run(own, "-c", program).splitlines()[-1]


if __name__ == "__main__":
    given = sys.argv[1:]
    print(sampled_from_a_wheel(*given, *["3.12", "highest"][len(given) :]))
