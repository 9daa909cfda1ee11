"""Tables of the correction distribution that the package ships.

``PYTHONPATH=.:tests python -m steps.shipped_tables`` writes them anew.
"""

from pathlib import Path

import numpy as np

from pymc_minibatch_mh.steps import barker

TABLE = Path(barker.__file__).with_name("correction.npz")


def write(path: Path = TABLE) -> None:
    tables = [barker.minimax_correction(sigma) for sigma in barker.SHIPPED_SIGMAS]
    np.savez(
        path,
        sigma=[table.sigma for table in tables],
        error=[table.error for table in tables],
        count=[table.atoms.size for table in tables],
        atoms=np.concatenate([table.atoms for table in tables]),
        masses=np.concatenate([table.masses for table in tables]),
    )


if __name__ == "__main__":
    write()
