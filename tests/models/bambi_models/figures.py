"""What Bambi's families with effects of groups cost.

``python -m models.bambi_models.figures`` prints it.
"""

import sys

from models.bambi_models.groups import EFFECTS, RESPONSES, drawn

#: As many as docs/models.md says.
ROWS, DRAWS, TUNE = 50_000, 4_000, 1_000


def line(family, effect):
    """Return a line of the table: one family with one kind of effects."""
    run = drawn(family, effect, ROWS, DRAWS, TUNE)
    certified = bool(run.trace.sample_stats["certified"].all())
    return (
        f"{family:16} {EFFECTS[effect]:10} {run.rows_per_update:5,.0f} {run.acceptance:10.2f} "
        f"{run.full_passes:6.1%} {run.worst_rhat:6.3f}  {'yes' if certified else 'no'}"
    )


def main():
    """Print a table of all families, or of those that are named."""
    print("family           effects     rows acceptance   full  R-hat  certified")
    for family in sys.argv[1:] or RESPONSES:
        for effect in EFFECTS:
            print(line(family, effect), flush=True)


if __name__ == "__main__":
    main()
