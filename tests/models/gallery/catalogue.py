"""All models of the gallery."""

from models.gallery import models_hierarchies, models_outcomes, models_refused, models_regressions

EXAMPLES = {
    name: found.example
    for module in (models_regressions, models_hierarchies, models_outcomes, models_refused)
    for name, found in vars(module).items()
    if hasattr(found, "example")
}
