"""The claims of the pages, in their own words, and the tests that would fail without them."""

import json
from pathlib import Path

_STORED = json.loads(Path(__file__).with_name("claims.json").read_text(encoding="utf-8"))
#: Page -> sentence -> tests.
CLAIMS = _STORED["claims"]
#: Page -> sentences that claim nothing of the package: what is defined, advised, or said of other
#: pages.
DEFINITIONS = _STORED["definitions"]
#: Page -> sections of which every sentence is in one of the two; None for all of the page.
SECTIONS = {
    "README.md": [None],
    "SECURITY.md": ["## What the package does and does not do"],
    "docs/choose.md": ["## What is guaranteed"],
    "docs/guarantees.md": [None],
    "docs/bounds.md": [
        "## The guarantee",
        "## Unsupported models",
        "## Full-data evaluations",
        "## Violated bounds",
        "## Rounding",
    ],
}
