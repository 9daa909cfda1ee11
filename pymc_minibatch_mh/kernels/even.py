"""Rows of a batch that is drawn evenly and without replacement, one after the other.

Rows in memory are drawn by the chain's generator. Rows that are stored come from a supply that was
drawn ahead with replacement: those that the batch has already are skipped, so that what remains of
a sequence of independent rows is drawn without replacement. Which rows come next depends on nothing
that the chain does.
"""

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import draw_more, insert, skip_rows
from pymc_minibatch_mh.kernels.posterior import BLOCK, number_of_rows
from pymc_minibatch_mh.kernels.supply import END, NEXT, ask

#: The table of a supply of rows that are drawn evenly: there is no other then.
EVENLY = 0


@compiled(inlined=True)
def number_of_drawn(posterior):
    """Return how many rows batches are drawn from: all but those that every update reads."""
    return number_of_rows(posterior) - posterior.tables.heavy.size


@compiled(inlined=True)
def read_at_a_time(posterior, count):
    """Return how many of `count` rows of a batch are drawn and read before the next of them."""
    # A supply is overwritten while a batch goes on in the next but one.
    return min(count, BLOCK) if posterior.tables.supply.room > 0 else count


@compiled()
def take_new(supply, batch, seen, n, target, places):
    """Extend a batch by the next unused rows of a supply: see :func:`draw_next`.

    As many rows are used as `places` has room for, at most: those that the batch has count.
    """
    first, table = n, supply.places[EVENLY]
    for _ in range(places.size):
        if n == target:
            break
        if table[NEXT] == table[END] and not ask(supply, EVENLY):
            return -1
        place = table[NEXT]
        table[NEXT] += 1
        if insert(seen, supply.rows[place]):
            places[n - first] = place
            batch[n] = supply.rows[place]
            n += 1
    return n


@compiled(spliced=True)
def draw_next(posterior, rng, batch, seen, n, target, places):
    """Extend a batch of `n` rows, to `target` of them at most.

    Parameters
    ----------
    posterior : Posterior
    rng : numpy.random.Generator
        Not used where rows are stored.
    batch, seen : ndarray of int64
        The rows of the batch and the set of them, from :func:`draw.reserve`; extended in place.
        Rows in memory are numbered among those that batches are drawn from.
    n, target
        Rows that the batch has, and those that it may have afterwards.
    places : ndarray of int64
        Overwritten, from its beginning, by where the new rows are read. It has the length of
        :func:`read_at_a_time`.

    Returns
    -------
    int
        Rows that the batch has now: `target`, or fewer where rows are stored; -1 where they could
        not be had.
    """
    if posterior.tables.supply.room > 0:
        return take_new(posterior.tables.supply, batch, seen, n, target, places)
    draw_more(rng, number_of_drawn(posterior), batch, seen, n, target)
    for i in range(target - n):
        places[i] = batch[n + i]
    if posterior.tables.heavy.size:
        skip_rows(batch[n:target], posterior.tables.heavy, places)
    return target
