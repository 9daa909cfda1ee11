"""All inputs and what becomes of them: one table for the tests and for README.md."""

from docs.inputs import arguments, data, models, moves, settings, stored, trust, use

CASES = [
    *settings.CASES,
    *arguments.CASES,
    *moves.CASES,
    *trust.CASES,
    *data.CASES,
    *stored.CASES,
    *models.CASES,
    *use.CASES,
]
#: Title of a part of the table and the input, as it is written -> case.
BY_NAME = {f"{case.section}: {case.written}": case for case in CASES}
