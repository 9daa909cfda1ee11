"""Shares of a sum of coordinates, as t_j / S with S = t_1 + .. + t_K, which S itself multiplies.

Shares that are added up, multiplied by data or chosen by data stay one linear form over S, so that
in the end S cancels. It does so only where something is multiplied by it: a total of S/S stays as
it is until then, for in what data choose from all choices should be of one kind.
"""

from collections import defaultdict
from collections.abc import Sequence

from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.model.row.cells import Affine, Cell, Cells
from pymc_minibatch_mh.model.row.patterns import factors_of, is_a, number, summands, without


def part_of_sum(cells: Cells, cell: Cell) -> tuple[Cell, float] | None:
    """Return the sum S and k, of a cell that is k S."""
    if not isinstance(cell, Affine) or number(cell.offset) != 0.0:
        return None
    first = cell.terms[0]
    if any(t.factor != first.factor or t.monomial for t in cell.terms):
        return None
    places = tuple(sorted(t.place for t in cell.terms if isinstance(t.place, int)))
    if len(places) < len(cell.terms) or places not in cells.sums:
        return None
    total = cells.scaled(cell, cells.constant(1.0 / first.factor))
    return total, first.factor


def divided_by(cells: Cells, cell: Cell) -> Cell | None:
    """Return 1/S if it is a factor of a product."""
    for part in factors_of(cell):
        if is_a(part, scalar.Reciprocal) and part_of_sum(cells, part.inputs[0]) is not None:
            return part
    return None


def cancelled(cells: Cells, factors: Sequence[Cell]) -> list[Cell]:
    """Return factors without pairs of k S and 1/S, of which k is left."""
    if not cells.sums:
        return list(factors)
    for divisor in factors:
        if not is_a(divisor, scalar.Reciprocal):
            continue
        known = part_of_sum(cells, divisor.inputs[0])
        for factor in factors if known is not None else ():
            found = part_of_sum(cells, factor)
            if known is not None and found is not None and found[0] is known[0]:
                rest = without(without(factors, divisor), factor)
                return cancelled(cells, [*rest, cells.constant(found[1] / known[1])])
    return list(factors)


def multiplied(cells: Cells, factors: Sequence[Cell]) -> list[list[Cell]] | None:
    """Return the products of a sum's parts, if another factor is S and one is divided by it."""
    if not cells.sums:
        return None
    totals = [x for x in factors if part_of_sum(cells, x) is not None]
    for one in factors if totals else ():
        if is_a(one, scalar.Add) and any(divided_by(cells, x) for x in summands(one)):
            rest = without(factors, one)
            return [[*rest, part] for part in summands(one)]
    return None


def added(cells: Cells, parts: Sequence[Cell]) -> list[Cell]:
    """Return summands with those that are linear forms over the same S in one."""
    if not cells.sums:
        return list(parts)
    forms: defaultdict[Cell, list[Affine]] = defaultdict(list)
    others: list[Cell] = []
    for part in parts:
        found = _form_over(cells, part)
        if found is None:
            others.append(part)
        else:
            forms[found[1]].append(found[0])
    for divisor, affines in forms.items():
        total = cells.total(affines, [])
        if number(total) != 0.0:
            others.append(cells.node(scalar.mul, cells.ordered([total, divisor])))
    return others


def _form_over(cells: Cells, part: Cell) -> tuple[Affine, Cell] | None:
    divisor = divided_by(cells, part)
    if divisor is None:
        return None
    rest = without(factors_of(part), divisor)
    forms = [x for x in rest if isinstance(x, Affine)]
    data = [x for x in rest if x.is_data]
    if len(forms) != 1 or len(data) + 1 != len(rest):
        return None
    form: Cell = forms[0]
    for factor in data:
        form = cells.scaled(form, factor) if isinstance(form, Affine) else form
    return (form, divisor) if isinstance(form, Affine) else None


def over_one_sum(cells: Cells, choices: Sequence[Cell]) -> tuple[list[Cell], Cell] | None:
    """Return linear forms and 1/S, of cells that are such forms over S, or numbers, or sums."""
    parts = [summands(choice) for choice in choices] if cells.sums else []
    divisors = {divided_by(cells, part) for one in parts for part in one} - {None}
    if len(divisors) != 1:
        return None
    (divisor,) = divisors
    assert divisor is not None
    forms = [[_times_sum(cells, part, divisor) for part in one] for one in parts]
    found = [[x for x in one if x is not None] for one in forms]
    if found != forms:
        return None
    totals = [cells.total([x for x in one if isinstance(x, Affine)], []) for one in found]
    return totals, divisor


def _times_sum(cells: Cells, part: Cell, divisor: Cell) -> Cell | None:
    """Return a number, or a linear form over S, times S."""
    form, value, total = _form_over(cells, part), number(part), divisor.inputs[0]
    if form is not None:
        return form[0]
    if value is None or not isinstance(total, Affine):
        return None
    return cells.scaled(total, cells.constant(value))
