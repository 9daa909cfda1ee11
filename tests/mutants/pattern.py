"""Operators that change code, where a pattern matches it.

A pattern is Python. Names of Python and NumPy and methods of arrays stand for themselves in it, and
any other name for any name with its attributes, the same throughout: ``rows[place]`` is one name
indexed by another, whatever the two are called. ``_`` is any expression, a capital letter any one
that is used again, and a last argument ``...`` the remaining arguments of a call. The names of a
pattern stand for what they matched in the replacement as well.
"""

import ast
import builtins
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

#: Names that stand for themselves, alone and as attributes.
FIXED = {*dir(builtins), "np", "math", "pt", "os"}
METHODS = {*dir(np.ndarray), *dir(np.random.Generator)}
#: Fields of nodes that patterns do not look at.
IGNORED = {"ctx", "kind", "type_comment", "type_params", "decorator_list"}
REST = "..."


@dataclass(frozen=True)
class Replace:
    """Put other code in the place of what a pattern matches: of one node, unless `every` is set.

    Where a pattern matches several nodes, the one that has its very names is meant.
    """

    old: str
    new: str
    every: bool = False

    def apply(self, tree):
        """Change a syntax tree in place.

        Raises
        ------
        LookupError
            If the pattern matches no node, or several.
        """
        old, new = ast.parse(self.old).body, ast.parse(self.new).body
        if all(len(code) == 1 and isinstance(code[0], ast.Expr) for code in (old, new)):
            old, new = old[0].value, new[0].value
        for holder, place, bound in reversed(self._chosen([*_matches(old, tree)])):
            if isinstance(old, list):
                holder[place : place + len(old)] = [_filled(part, bound) for part in new]
                if not holder:
                    holder.append(ast.Pass())
            elif isinstance(holder, list):
                holder[place] = _for(holder[place], _filled(new, bound))
            else:
                setattr(holder, place, _for(getattr(holder, place), _filled(new, bound)))
        ast.fix_missing_locations(tree)

    def _chosen(self, found):
        if len(found) > 1 and not self.every:
            found = [match for match in found if _has_names(match[-1])] or found
        if len(found) != 1 and not (found and self.every):
            raise LookupError(f"{self.old!r} matches {len(found) or 'no'} nodes")
        return found


def drop(statements):
    return Replace(statements, "")


def always(condition):
    return Replace(condition, "True")


def never(condition):
    return Replace(condition, "False")


def left(operation):
    """Keep the left operand, or the first condition."""
    return Replace(operation, _operand(operation, 0))


def right(operation):
    """Keep the right operand, or the last condition."""
    return Replace(operation, _operand(operation, -1))


def _operand(operation, which):
    node = ast.parse(operation, mode="eval").body
    operands = node.values if isinstance(node, ast.BoolOp) else [node.left, node.right]
    return ast.unparse(operands[which])


def _matches(pattern, node):
    """Yield where a pattern matches, in the order of the source, and what its names stand for."""
    statements = isinstance(pattern, list)
    for field, value in ast.iter_fields(node):
        listed = isinstance(value, list) and field not in IGNORED
        for place, child in enumerate(value) if listed else [(field, value)]:
            if isinstance(child, ast.stmt if statements else ast.expr):
                found, bound = value[place : place + len(pattern)] if statements else child, {}
                if _match(pattern, found, bound):
                    yield value if listed else node, place, bound
            if isinstance(child, ast.AST):
                yield from _matches(pattern, child)


def _match(pattern, node, bound):
    """Whether a pattern matches, and note what its names stand for."""
    if isinstance(pattern, list):
        pairs = zip(pattern, node, strict=False)
        return len(pattern) == len(node) and all(_match(p, n, bound) for p, n in pairs)
    words = _words(pattern)
    if words and (len(words) == 1 or not _is_any(words[0])):
        return isinstance(node, ast.expr) and _match_name(words, node, bound)
    if not isinstance(pattern, ast.AST) or type(pattern) is not type(node):
        return pattern == node
    if isinstance(pattern, ast.Call) and pattern.args and _is_rest(pattern.args[-1]):
        n = len(pattern.args) - 1
        bound[REST] = ast.Call(node.func, node.args[n:], node.keywords)
        pattern = ast.Call(pattern.func, pattern.args[:n], pattern.keywords)
        node = ast.Call(node.func, node.args[:n], [])
    fields = [field for field in pattern._fields if field not in IGNORED]
    return all(_match(getattr(pattern, f), getattr(node, f), bound) for f in fields)


def _match_name(words, node, bound):
    """Whether a name with attributes is one that a pattern's name may stand for."""
    name, theirs = ".".join(words), _words(node)
    if _is_any(name):
        return name == "_" or _bind(name, node, bound)
    if not theirs or FIXED & {words[0], theirs[0]} or _methods(words) != _methods(theirs):
        return words == theirs
    if ast.unparse(node) in {ast.unparse(other) for key, other in bound.items() if key != name}:
        return False
    while _bind(".".join(words), node, bound):
        if not len(words) == len(theirs) > 1:
            return True
        words, theirs, node = words[:-1], theirs[:-1], node.value
    return False


def _bind(name, node, bound):
    return ast.unparse(bound.setdefault(name, node)) == ast.unparse(node)


def _has_names(bound):
    """Whether every name of a pattern but the capital letters stands for itself."""
    named = {name: node for name, node in bound.items() if name != REST and not _is_any(name)}
    return all(ast.unparse(node) == name for name, node in named.items())


def _is_any(name):
    return name == "_" or (len(name) == 1 and name.isupper())


def _words(node):
    """Return the parts of a name with attributes, or None for any other node."""
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return [node.id, *words[::-1]] if isinstance(node, ast.Name) else None


def _methods(words):
    return [word for word in words[1:] if word in METHODS]


def _is_rest(node):
    return isinstance(node, ast.Constant) and node.value is ...


def _for(old, new):
    """Return a node that is read or written to as another one was."""
    if hasattr(old, "ctx") and hasattr(new, "ctx"):
        new.ctx = old.ctx
    return new


def _filled(template, bound):
    return _Filling(bound).visit(deepcopy(template))


class _Filling(ast.NodeTransformer):
    """Puts what was matched in the place of the names of a pattern."""

    def __init__(self, bound):
        self.bound = bound

    def visit_Name(self, node):
        words, made = _words(node) or [], None
        for cut in range(len(words), 0, -1):
            if (name := ".".join(words[:cut])) in self.bound:
                made = _for(ast.Name("", ast.Load()), deepcopy(self.bound[name]))
                for word in words[cut:]:
                    made = ast.Attribute(made, word, ast.Load())
                return _for(node, made)
        return self.generic_visit(node)

    visit_Attribute = visit_Name  # noqa: N815 - called by ast

    def visit_Call(self, node):
        node = self.generic_visit(node)
        if node.args and _is_rest(node.args[-1]):
            rest = deepcopy(self.bound[REST])
            node.args[-1:], node.keywords = rest.args, [*node.keywords, *rest.keywords]
        return node
