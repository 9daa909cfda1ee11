"""Linear forms of the parameters, in words."""

from itertools import chain

from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.model.reading.split import Block, Split
from pymc_minibatch_mh.model.row.cells import Apply, Cell, Constant, Data, Gather, Lookup, Term
from pymc_minibatch_mh.model.row.function import LinearForm, RowFunction


def in_words(function: RowFunction, split: Split) -> tuple[str, ...]:
    """Return the arguments of a row as ``x × slope``, ``effect[group]`` or ``sigma_log__``.

    Parameters
    ----------
    function
        The term.
    split
        The model that it belongs to.
    """
    return tuple(_form(form, function, split) for form in function.arguments)


def _form(form: LinearForm, function: RowFunction, split: Split) -> str:
    groups: dict[tuple[str, str], list[Term]] = {}
    for term in form.terms:
        data = " × ".join(_data(cell, function, entries=False) for cell in term.monomial)
        groups.setdefault((data, _name_at(_first(term), split)), []).append(term)
    words = ""
    for (data, block), terms in groups.items():
        if len(terms) > 1:
            text = f"{f'{data} × ' if data else ''}{block} ({len(terms)} terms)"
            negative = False
        else:
            text, negative = _single(terms[0], function, split), terms[0].factor < 0.0
        sign = " - " if negative else " + "
        words += sign + text if words else ("-" if negative else "") + text
    return words


def _single(term: Term, function: RowFunction, split: Split) -> str:
    factors = [] if abs(term.factor) == 1.0 else [f"{abs(term.factor):g}"]
    factors += [_data(cell, function, entries=True) for cell in term.monomial]
    if isinstance(term.place, Gather):
        index = _data(term.place.index, function, entries=True)
        coordinate = f"{_name_at(term.place.first, split)}[{index}]"
    else:
        entry = split.coordinate_names[term.place].removeprefix(_block_at(term.place, split).name)
        coordinate = _name_at(term.place, split) + entry
    return " × ".join([*factors, coordinate])


def _first(term: Term) -> int:
    return term.place.first if isinstance(term.place, Gather) else term.place


def _name_at(place: int, split: Split) -> str:
    """Return what lies at a place: a block, or what the chain has in the place of one."""
    for one in split.coordinates.maps if split.coordinates is not None else ():
        if place in one.places:
            return f"({one.words})"
    return _block_at(place, split).name


def _block_at(place: int, split: Split) -> Block:
    return next(block for block in split.blocks if place < block.stop)


def _data(cell: Cell, function: RowFunction, entries: bool) -> str:
    """Return what a data cell is computed from."""
    if isinstance(cell, Data):
        entry = str(list(cell.entry)) if entries and cell.entry else ""
        return function.columns[cell.column].name + entry
    if isinstance(cell, Constant):
        return f"{cell.value:g}"
    if isinstance(cell, Lookup):
        return f"a table[{_data(cell.index, function, entries)}]"
    if isinstance(cell, Apply):
        if isinstance(cell.op, scalar.Cast):
            return _data(cell.operands[0], function, entries)
        return f"f({', '.join(_sources(cell, function, entries))})"
    return "row number"


def _sources(cell: Cell, function: RowFunction, entries: bool) -> list[str]:
    """Return what a cell is a function of, each once: data, but no constants and nothing between.

    A categorical column that is coded by the model has one such cell for every category, all of
    the same data.
    """
    if isinstance(cell, Apply):
        inside = (_sources(operand, function, entries) for operand in cell.operands)
        return list(dict.fromkeys(chain.from_iterable(inside)))
    return [] if isinstance(cell, Constant) else [_data(cell, function, entries)]
