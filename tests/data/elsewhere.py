"""Storages that compute with their rows as another process does, or note what is read."""

import pickle

import numpy as np

from pymc_minibatch_mh.data.source import ArrayStorage


class Elsewhere(ArrayStorage):
    """Arrays whose blocks are computed by what a pickle gives, as another process does.

    It counts the rows that are read here.
    """

    cuts = ()

    def __init__(self, arrays):
        super().__init__(arrays)
        self.n_read = 0

    def read(self, names, rows):
        found = super().read(names, rows)
        self.n_read += len(next(iter(found.values())))
        return found

    @property
    def workers(self):
        return self

    def map_blocks(self, names, work, blocks):
        # Dask's workers refer weakly to it, which not every value allows.
        assert type(work).__weakrefoffset__
        work = pickle.loads(pickle.dumps(work))
        names = list(names)
        for block in blocks:
            rows, call = pickle.loads(pickle.dumps(block))
            read = super().read(names, rows)
            # Nothing of it is where it lies here.
            yield call(work, {name: np.array(values) for name, values in read.items()})


class Recording(ArrayStorage):
    """Arrays that note the names and the rows that they were asked for."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.asked = []

    def read(self, names, rows):
        names = list(names)
        self.asked.append((names, rows))
        return super().read(names, rows)
