"""The experiments of the papers that the methods come from, run with the steps of this package.

One script a section of a paper. Each fits the authors' model with PyMC, samples it with the steps
that this package has for their methods, and writes what came out beside what they published:

    cd examples
    python -m uv run python -m papers.seita_mixture           # minutes: fewer trials
    python -m uv run python -m papers.seita_mixture --full    # the stored results

``python -m papers.page`` then writes the stored results for the pages of the documentation.
"""
