"""Pages that are notebooks, as files for Jupyter; and links that would lead nowhere."""

import base64
import re
from pathlib import Path
from typing import Any

#: Links to other pages lead nowhere from a file that was downloaded.
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
#: Results that are stored beside a page.
STORED = re.compile(r'np\.load\("([\w.]+)"\)')


def is_notebook(source: Path) -> bool:
    """Whether a page has cells."""
    return "file_format: mystnb" in source.read_text(encoding="utf-8")


def portable(cell: str, kind: str, folder: Path) -> str:
    """Return a cell that runs anywhere: files beside the page are in it, and links are text."""

    def embedded(found: re.Match[str]) -> str:
        text = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'np.load(io.BytesIO(base64.b64decode("{text}")))'

    if kind == "markdown":
        return LINK.sub(r"\1", cell)
    changed = STORED.sub(embedded, cell)
    return cell if changed == cell else f"import base64\nimport io\n\n{changed}"


def offer_notebook(app: Any, pagename: str, _template: str, context: Any, _tree: Any) -> None:
    """Tell the template of a page whether there is a notebook of it."""
    source = Path(app.srcdir, f"{pagename}.md")
    context["notebook"] = source.is_file() and is_notebook(source)


def write_notebooks(app: Any, error: Exception | None) -> None:
    """Write the notebooks, without outputs, beside the pages that are built."""
    # Tests of the cells run where these two are not installed.
    import nbformat  # noqa: PLC0415
    from myst_nb.core.read import myst_nb_reader_plugin  # noqa: PLC0415

    if error is not None or app.builder.name != "html":
        return
    for source in sorted(Path(app.srcdir, "tutorials").glob("*.md")):
        if is_notebook(source):
            notebook = myst_nb_reader_plugin(str(source))
            for cell in notebook.cells:
                cell.source = portable(cell.source, cell.cell_type, source.parent)
            target = Path(app.outdir, "tutorials", f"{source.stem}.ipynb")
            nbformat.write(nbformat.v4.upgrade(notebook), target)


def unlink_changes(_app: Any, path: Path, _page: str, content: list[str]) -> None:
    """Drop links of the changelog to pages that the site does not have."""
    if path.name == "CHANGELOG.md":
        content[0] = LINK.sub(r"\1", content[0])


def setup(app: Any) -> dict[str, bool]:
    """Write them at the end of a build."""
    app.connect("include-read", unlink_changes)
    app.connect("html-page-context", offer_notebook)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
