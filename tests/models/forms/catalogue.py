"""All forms of models, in the order of the table."""

from models.forms import (
    declaring,
    dependent,
    dimensions,
    matrices,
    mixtures,
    potentials,
    regressions,
    writing,
)
from models.forms.form import Form
from models.forms.page import WRITTEN

SECTIONS = (
    regressions.real,
    regressions.counted,
    regressions.classed,
    mixtures.mixed,
    mixtures.cut,
    matrices.vectors,
    writing.columns,
    writing.groups,
    declaring.models,
    potentials.summed,
    dimensions.named,
    dependent.declared,
    dependent.mixing,
    dependent.latent,
    potentials.mixed,
)
_DECLARED = {form.key: form for section in SECTIONS for form in section.forms}
#: In the order of the page, and those that are not on it at the end.
FORMS: dict[str, Form] = {
    key: _DECLARED[key] for key in dict.fromkeys([*WRITTEN, *_DECLARED]) if key in _DECLARED
}
ACCEPTED = {key: form for key, form in FORMS.items() if not form.refused}
REFUSED = {key: form for key, form in FORMS.items() if form.refused}
