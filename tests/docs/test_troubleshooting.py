"""The messages of the page on troubleshooting are those that the package gives."""

import ast
import re
from pathlib import Path

import pytest

import pymc_minibatch_mh

PACKAGE = Path(pymc_minibatch_mh.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "troubleshooting.md"
#: The table of refused inputs: the tests hold the package to every message in it.
REFUSED = ROOT / "tests" / "docs" / "inputs" / "README.md"
MESSAGES = re.findall(r"```text\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def strings(source):
    """Return the texts of a module, "…" where a value is put in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%(\.\d)?[srd]", "…", node.value)


@pytest.fixture(scope="module")
def given():
    refused = re.sub(r"\\([_\[\]*<])", r"\1", REFUSED.read_text(encoding="utf-8"))
    texts = [t for file in PACKAGE.rglob("*.py") for t in strings(file.read_text("utf-8"))]
    return [refused, *texts]


def test_the_page_has_thirteen_messages():
    assert len(MESSAGES) == 13


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_is_given(message, given):
    for part in " ".join(message.split()).split("…"):
        words = part.strip()
        assert any(words in text for text in given), words
