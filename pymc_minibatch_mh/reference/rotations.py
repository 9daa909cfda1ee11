"""Rotations that leave a posterior unchanged, as of factors together with their loadings.

The modes are then a curve or surface, and no normal distribution around one of them is near the
posterior. Invariance is tested at a random point, for a random rotation and a few rows.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from math import isfinite

import numpy as np

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.reference.few_rows import FewRows
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.target import Target

#: Most coordinates, and matrices that are tried in pairs; most columns; seed; width of the random
#: point; relative change that is rounding, and factor by which a matrix is scaled to see whether
#: rows depend on it.
MAX_SIZE, MAX_MATRICES, MAX_COLUMNS, SEED = 5_000, 6, 16, 17
WIDTH, ROUNDING, SCALED = 0.3, 1e-10, 1.25

#: A matrix of parameters and the axis that is rotated.
type Columns = tuple[Block, int]


def rotated_together(target: Target, start: np.ndarray) -> tuple[str, ...]:
    """Names of one or two variables whose common rotation changes neither prior nor rows."""
    matrices = [block for block in target.factorization.blocks if _is_matrix(block)]
    if not 0 < len(matrices) <= MAX_MATRICES or start.size > MAX_SIZE:
        return ()
    functions = target.row_functions
    if isinstance(functions, BoundsError) or not target.source.in_memory:
        return ()
    few, rng = FewRows.spread(target, functions), np.random.default_rng(SEED)
    theta = start + WIDTH * rng.standard_normal(start.size)
    for columns in _candidates(matrices):
        block, axis = columns[0]
        rotation = np.linalg.qr(rng.standard_normal((block.shape[axis],) * 2))[0]
        if _is_unchanged(few, theta, columns, rotation):
            return tuple(target.factorization.name_at(block.start) for block, _ in columns)
    return ()


def _is_matrix(block: Block) -> bool:
    return len(block.shape) == 2 and block.entries is None and not block.adds_up_to_0


def _candidates(matrices: Sequence[Block]) -> Iterator[Sequence[Columns]]:
    """One matrix, and then two, along axes of equal lengths."""
    for count in (1, 2):
        for blocks in combinations(matrices, count):
            for axes in product((1, 0), repeat=count):
                columns = list(zip(blocks, axes, strict=True))
                lengths = {block.shape[axis] for block, axis in columns}
                if len(lengths) == 1 and 1 < min(lengths) <= MAX_COLUMNS:
                    yield columns


def _is_unchanged(
    few: FewRows, theta: np.ndarray, columns: Sequence[Columns], rotation: np.ndarray
) -> bool:
    """Whether a rotation changes neither rows, which depend on each of the matrices, nor prior."""
    rotated, scaling = _turned(theta, columns, rotation), SCALED * np.eye(len(rotation))
    if not _is_equal(few.likelihood, theta, rotated):
        return False
    for each in columns:
        if _is_equal(few.likelihood, theta, _turned(theta, [each], scaling)):
            return False
    # Last, because priors are compiled.
    return _is_equal(few.prior, theta, rotated)


def _is_equal(density: Callable[..., Derivatives], *ends: np.ndarray) -> bool:
    """Whether a log-density is finite and equal at two positions, up to rounding."""
    before, after = (density(theta, hessian=False).value for theta in ends)
    return isfinite(before) and abs(after - before) <= ROUNDING * (1.0 + abs(before))


def _turned(theta: np.ndarray, columns: Sequence[Columns], by: np.ndarray) -> np.ndarray:
    turned = theta.copy()
    for block, axis in columns:
        values = theta[block.start : block.stop].reshape(block.shape)
        product = np.moveaxis(np.moveaxis(values, axis, 1) @ by, 1, axis)
        turned[block.start : block.stop] = product.ravel()
    return turned
