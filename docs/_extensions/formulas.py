"""Formulas as pictures that a build draws: pages load neither scripts nor fonts for them."""

import html
import re
from typing import Any

import ziamath
from docutils import nodes
from sphinx.util.math import get_node_equation_number

#: The size that formulas are drawn at; a page scales them with its text.
SIZE = 100.0
TAG = re.compile(r"\\tag\{(.*?)\}")
#: Bars of norms would grow with the exponents of what stands between them.
BARS = re.compile(r"\\[lr]Vert\b")
HEAD = re.compile(r'<svg (.*?)width="(.*?)" height="(.*?)"')


def drawn(latex: str, inline: bool) -> str:
    """Return a formula as SVG, in the size and the colour of the text, named by its LaTeX."""
    source = BARS.sub(r"\\|", TAG.sub("", latex))
    formula = ziamath.Math.fromlatex(source, SIZE, color="currentColor", inline=inline)
    below = formula.getyofst() / SIZE

    def head(found: re.Match[str]) -> str:
        width, height = (float(found[k]) / SIZE for k in (2, 3))
        label = html.escape(" ".join(latex.split()), quote=True)
        size = f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{below:.3f}em"
        return f'<svg role="img" aria-label="{label}" style="{size}" {found[1]}'

    return HEAD.sub(head, formula.svg(), count=1)


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(f'<span class="formula">{drawn(node.astext(), True)}</span>')
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, with the number that it is referred to by."""
    latex = node.astext()
    number = get_node_equation_number(translator, node) if node["number"] else ""
    number = number or "".join(TAG.findall(latex))
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    translator.body.append(drawn(latex, False))
    translator.body.append(f'<span class="eqno">({number})</span></div>' if number else "</div>")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer them as `html_math_renderer = "drawn"`."""
    # Glyphs as paths: as symbols they would share the identifiers of a page.
    ziamath.config.svg2 = False
    app.add_html_math_renderer("drawn", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
