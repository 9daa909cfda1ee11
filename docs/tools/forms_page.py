"""The tables of tests/models/forms/README.md, from what the package does with every form.

``PYTHONPATH=.:tests python -m docs.tools.forms_page`` writes them anew.
"""

import re
from collections.abc import Callable

from models.forms.catalogue import FORMS
from models.forms.certificate import certificate, split_form
from models.forms.form import Form
from models.forms.page import MARKERS, PAGE, WRITTEN
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model.factorization import Factorization

HEAD = "| form | as written | accepted | certified | reason |\n| --- | --- | --- | --- | --- |\n"


def table(line_of: Callable[[Form], str]) -> str:
    """Return the table of all lines, one part for every section."""
    sections = dict.fromkeys(form.section for form in FORMS.values())
    parts = []
    for section in sections:
        rows = [line_of(form) for form in FORMS.values() if form.section == section]
        parts.append(f"\n## {section}\n\n{HEAD}{''.join(rows)}")
    return "".join(parts) + "\n"


def line(form: Form, parts: Factorization | None = None) -> str:
    """Return the row of the table about one form, which may have been split before."""
    try:
        found = certificate(split_form(form) if parts is None else parts)
    except UnsupportedModelError as error:
        accepted, certified, reason = "no", "–", without_variable(str(error))
    else:
        accepted, reason = "yes", found.reason
        certified = {2: "yes", None: "no"}.get(found.order, f"`taylor_order={found.order}`")
    if form.key not in WRITTEN:
        raise LookupError(f"{form.key!r}: write its name and its line of PyMC into {PAGE} by hand.")
    exprs = (form.name, f"`{WRITTEN[form.key]}`", accepted, certified, reason)
    return "| " + " | ".join(expr.replace("|", "\\|") for expr in exprs) + " |\n"


def without_variable(refusal: str) -> str:
    """Return the cause that a refusal gives."""
    cause = re.split(r", so (?:it cannot be|there is nothing)", refusal)[0]
    return cause.split("' ", 1)[-1].removeprefix("cannot be split into observations: ")


def main() -> None:
    """Write the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(MARKERS[0])[0], page.split(MARKERS[1])[1]
    PAGE.write_text(before + MARKERS[0] + table(line) + MARKERS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
