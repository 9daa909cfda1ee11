"""Strictly monotone functions of one coordinate, with their inverse.

Scales are such functions: exp(v), or an interval's end times the inverse logit of v.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from scipy.special import expit

#: Functions without a number, and powers, by PyTensor's operation.
_NAMES = {scalar.Exp: "exp", scalar_math.Sigmoid: "sigmoid", scalar_math.Softplus: "softplus"}
_POWERS = {scalar.Reciprocal: -1.0, scalar.Sqr: 2.0, scalar.Sqrt: 0.5}
_FORWARD: dict[str, Callable[[Any, float], Any]] = {
    "multiply": np.multiply,
    "add": np.add,
    "power": np.power,
    "exp": lambda x, _: np.exp(x),
    "sigmoid": lambda x, _: expit(x),
    "softplus": lambda x, _: np.logaddexp(0.0, x),
}
#: Steps that change nothing, and the exponential function.
_IDENTITIES, _EXP = (("multiply", 1.0), ("power", 1.0), ("add", 0.0)), ("exp", 0.0)


class Monotone(NamedTuple):
    """Strictly monotone function of a coordinate: operations with a number each, in order."""

    coordinate: int
    steps: tuple[tuple[str, float], ...]

    def value(self, x: Any) -> Any:
        """Value at numbers."""
        for name, number in self.steps:
            x = _FORWARD[name](x, number)
        return x

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the values over all real numbers."""
        with np.errstate(divide="ignore"):
            low, high = np.sort(self.value(np.array([-np.inf, np.inf])))
        return float(low), float(high)

    def to_power(self, number: float) -> "Monotone":
        """Power of a positive function."""
        *steps, last = self.steps
        step = ("multiply" if last == _EXP else "power", number)
        steps = [*steps, step, last] if last == _EXP else [*steps, last, step]
        return self._replace(steps=tuple(x for x in steps if x not in _IDENTITIES))

    def undo(self, y: Any) -> tuple[Any, Any]:
        """Inverse, and logarithm of its absolute derivative: NaN outside of the values."""
        total = 0.0
        for name, number in reversed(self.steps):
            y, log_slope = _undo_step(name, number, y)
            total = total + log_slope
        return y, total


def _undo_step(name: str, number: float, y: Any) -> tuple[Any, Any]:
    m: Any = pt if isinstance(y, Variable) else np
    if name == "multiply":
        return y / number, -np.log(abs(number))
    if name == "add":
        return y - number, 0.0
    if name == "softplus":
        rest = m.log(-m.expm1(-y))
        return y + rest, -rest
    log = m.log(y)
    if name == "power":
        return m.exp(log / number), (1.0 / number - 1.0) * log - np.log(abs(number))
    if name == "exp":
        return log, -log
    rest = m.log1p(-y)
    return log - rest, -log - rest


def monotone_from(expression: tuple) -> Monotone | None:
    """Function of one coordinate that an expression is; None if it is not known to be monotone."""
    match expression:
        case ("linear", ((factor, coordinate),), ("number", offset)):
            steps = (("multiply", factor), ("add", offset))
            return Monotone(coordinate, tuple(x for x in steps if x not in _IDENTITIES))
        case ("apply", op, *inputs):
            numbers = [x[1] for x in inputs if x[0] == "number"]
            (inner, *others) = [x for x in inputs if x[0] != "number"] or [expression]
            step = _step_of(op, numbers, inputs[0] is inner)
            function = None if others or step is None else monotone_from(inner)
            # Powers are monotone for positive numbers.
            if function and step and (step[0] != "power" or function.ends[0] >= 0.0):
                return function._replace(steps=(*function.steps, step))
    return None


def _step_of(op: Any, numbers: list[float], is_first: bool) -> tuple[str, float] | None:
    """Operation with numbers, on an operand that may be the first."""
    kind = type(op)
    if kind is scalar.Mul and np.prod(numbers) != 0.0:
        return "multiply", float(np.prod(numbers))
    if kind is scalar.Add:
        return "add", float(np.sum(numbers))
    if kind is scalar.Pow and is_first and numbers[0] != 0.0:
        return "power", numbers[0]
    if kind in _POWERS:
        return "power", _POWERS[kind]
    return (_NAMES[kind], 0.0) if kind in _NAMES else None
