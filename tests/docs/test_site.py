"""The site needs no other host, and its notebooks no other file."""

import base64
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.DOTALL)
#: What a browser fetches by itself; links are what readers follow.
FETCHED = re.compile(
    r'<(?:script|img|iframe|link(?! rel="canonical"))[^>]*(?:src|href)="(https?:[^"]+)"'
)
#: A name of a file beside a page that a cell reads.
FILE = re.compile(r'read_\w+\("([^"]+)"|load\("([^"]+)"|open\("([^"]+)"')


@pytest.fixture(scope="module")
def notebooks():
    """The extension of the site that writes notebooks."""
    path = DOCS / "_extensions" / "notebooks.py"
    spec = importlib.util.spec_from_file_location("notebooks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_that_were_built_fetch_nothing_from_elsewhere():
    found = {
        (page.name, address)
        for page in (DOCS / "_build").rglob("*.html")
        for address in FETCHED.findall(page.read_text(encoding="utf-8"))
    }
    assert found == set()
    assert FETCHED.findall('<script async="async" src="https://cdn.example/x.js"></script>')
    assert not FETCHED.findall('<a href="https://arxiv.org/abs/2006.11677">')


def test_the_configuration_names_no_other_host_for_scripts_and_styles():
    conf = (DOCS / "conf.py").read_text(encoding="utf-8")
    # MathJax, which Sphinx takes by default, comes from another host.
    assert 'html_math_renderer = "drawn"' in conf
    (sheets,) = re.findall(r"html_css_files = \[(.*?)\]", conf)
    for name in re.findall(r'"(.*?)"', sheets):
        assert "http" not in (DOCS / "_static" / name).read_text(encoding="utf-8")


def test_notebooks_need_no_file_beside_them(notebooks):
    pages = [page for page in (DOCS / "tutorials").glob("*.md") if notebooks.is_notebook(page)]
    assert len(pages) >= 6
    for page in pages:
        for cell in CELL.findall(page.read_text(encoding="utf-8")):
            assert not FILE.findall(notebooks.portable(cell, "code", page.parent)), page.name
    assert FILE.findall('flights = pd.read_csv("flights.csv.gz")')


def test_a_stored_result_is_in_the_notebook(notebooks, tmp_path):
    (tmp_path / "a.npz").write_bytes(b"stored")
    cell = notebooks.portable('nuts = np.load("a.npz")', "code", tmp_path)
    (text,) = re.findall(r'b64decode\("(.*?)"\)', cell)
    assert base64.b64decode(text) == b"stored"
    assert "import io" in cell
    plain = notebooks.portable(
        "[How to](../choose.md) [PyMC](https://pymc.io)", "markdown", tmp_path
    )
    assert plain == "How to [PyMC](https://pymc.io)"
