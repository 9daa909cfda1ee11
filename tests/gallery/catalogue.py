"""All models of the gallery."""

from gallery import models_hierarchies, models_outcomes, models_refused, models_regressions

EXAMPLES = {
    example.name: example
    for module in (models_regressions, models_hierarchies, models_outcomes, models_refused)
    for example in module.EXAMPLES
}
