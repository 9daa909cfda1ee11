"""What a transition matrix says of the law that its chain converges to.

``PYTHONPATH=.:tests python -m law.exactness.law`` writes the stored figures anew.
"""

import json
from pathlib import Path

import numpy as np

from law.exactness import poisson
from law.exactness.enumeration import total_variation, transition_matrix
from law.exactness.kernels import CHAINS, RULES

FILE = Path(__file__).with_name("laws.json")
EXACT_FILE = Path(__file__).with_name("exact_laws.json")


def is_one_of_moves(matrix):
    """Return whether a matrix has probabilities in its lines."""
    # The diagonal is what is left of 1.
    return matrix.min() >= -1e-14 and np.abs(matrix.sum(axis=1) - 1.0).max() <= 1e-14


def drift(matrix, target):
    """Return ‖πP − π‖₁, how far one step leads away from the target."""
    return float(np.abs(target @ matrix - target).sum())


def imbalance(matrix, target):
    """Return the largest difference of the flow from one state to another and back."""
    flow = target[:, None] * matrix
    return float(np.abs(flow - flow.T).max())


def gap(matrix):
    """Return 1 minus the second largest absolute eigenvalue: above 0, the chain is ergodic."""
    return 1.0 - float(np.sort(np.abs(np.linalg.eigvals(matrix)))[-2])


def of(matrix, target):
    """Return the figures that are stored for an approximate test."""
    return {
        "total variation": total_variation(matrix, target),
        "drift": drift(matrix, target),
        "imbalance": imbalance(matrix, target),
        "gap": gap(matrix),
    }


def worst(chains, matrices):
    """Return the largest figures of an exact test over its chains, and the smallest gap."""
    pairs = [(matrix, chain.target()) for chain, matrix in zip(chains, matrices, strict=True)]
    return {
        "chains": len(pairs),
        "total variation": max(total_variation(*pair) for pair in pairs),
        "drift": max(drift(*pair) for pair in pairs),
        "imbalance": max(imbalance(*pair) for pair in pairs),
        "gap": min(gap(matrix) for matrix, _ in pairs),
    }


def main():
    """Write the figures of the approximate tests, and the worst ones of the exact tests."""
    figures = {
        name: {
            key: of(transition_matrix(chain, rule), chain.target()) for key, chain in CHAINS.items()
        }
        for name, rule in RULES.items()
    }
    FILE.write_text(json.dumps(figures, indent=1) + "\n")
    exact = {name: worst(poisson.chains(), poisson.matrices(name)) for name in poisson.RULES}
    EXACT_FILE.write_text(json.dumps(exact, indent=1) + "\n")


if __name__ == "__main__":
    main()
