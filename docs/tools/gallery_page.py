"""The tables of tests/models/gallery/README.md, made from ``benchmarks/run_gallery.json``.

Run ``PYTHONPATH=.:tests python docs/tools/gallery_page.py`` in the root folder to write them
there.
"""

import json
import re
from pathlib import Path

from benchmarks.run_gallery import FILE
from docs.tools.tables import markdown, significant
from models.gallery.catalogue import EXAMPLES

PAGE = Path(__file__).parents[2] / "tests" / "models" / "gallery" / "README.md"
MARKED = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.DOTALL)
VERDICTS = {"exact": "exact", "order 2": "read, no bounds"}


def original(example):
    """Return title, path and variant of the original."""
    repository, path = example.source.split(": ")
    variant = f"; {example.ported}" if example.ported else ""
    return f"{example.title} (`{path}` of {repository}{variant})"


def gain(result, preparation):
    """Return effective draws per second, relative to NUTS, if preparation took some seconds."""
    seconds = preparation + result["ess"] / result["ess_per_second"]
    return result["ess"] / seconds / result["nuts_ess_per_second"]


def sampled_row(example, result):
    """Return the cells of a model that was sampled."""
    return [
        f"`{example.name}`" + ("" if result["nuts_draws"] >= 1_000 else r" \*"),
        original(example),
        VERDICTS[result["verdict"]],
        f"`{result['method']}`",
        str(result["coordinates"]),
        significant(result["rows_per_update"]),
        f"{100.0 * result['full_pass_share']:.1f} %",
        f"{result['acceptance']:.3f}",
        f"{result['mean_in_sd']:.3f} ({result['mean_in_mcse']:.1f})",
        f"{result['least_sd_ratio']:.2f}–{result['largest_sd_ratio']:.2f}",
        f"{result['setup_seconds']:.0f}",
        significant(gain(result, result["setup_seconds"])),
        significant(gain(result, 0.0)),
    ]


SAMPLED = [
    "model", "original", "verdict", "sampler", "d", "rows per update", "updates on all rows",
    "acceptance", "means off by sd (by MCSE)", "ratio of sds", "preparation (s)",
    "ESS/s with preparation, NUTS = 1", "without",
]  # fmt: skip


def tables(results):
    """Return both tables: models that were sampled, and models that were refused."""
    sampled, refused = [], []
    for name, result in results.items():
        if "message" in result:
            refused.append([f"`{name}`", original(EXAMPLES[name]), result["message"]])
        else:
            sampled.append(sampled_row(EXAMPLES[name], result))
    return markdown(SAMPLED, sampled), markdown(["model", "original", "message"], refused)


def filled(page, results):
    """Return a page with its tables made anew."""
    made = iter(tables(results))
    return MARKED.sub(lambda match: match[1] + next(made) + match[2], page)


if __name__ == "__main__":
    content = json.loads(FILE.read_text())
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), content["results"]), encoding="utf-8")
