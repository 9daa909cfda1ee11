"""All forms of models, in the order of the table."""

from forms import declaring, dependent, dimensions, matrices, mixtures, regressions, writing
from forms.form import Form

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
    dimensions.named,
    dependent.declared,
    dependent.mixing,
    dependent.latent,
)
FORMS: dict[str, Form] = {
    form.declare.__name__: form for section in SECTIONS for form in section.forms
}
ACCEPTED = {key: form for key, form in FORMS.items() if not form.refused}
REFUSED = {key: form for key, form in FORMS.items() if form.refused}
