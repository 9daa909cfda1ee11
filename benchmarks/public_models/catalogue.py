"""All models that people asked about, by name."""

from benchmarks.public_models import amounts, categories, durations, hierarchies, regressions
from benchmarks.public_models.record import Report

FILES = (amounts, categories, durations, hierarchies, regressions)
#: Name of a model -> what is recorded of it.
MODELS: dict[str, Report] = {
    name: build.report
    for file in FILES
    for name, build in vars(file).items()
    if hasattr(build, "report")
}
