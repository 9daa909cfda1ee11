import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

import pymc_minibatch_mh
from docs.tools.installs import EXTRAS, sampled_from_a_wheel
from mutants.test_mutants import MUTANTS
from pymc_minibatch_mh.native.statistics import STATS
from shards import PARTS

ROOT = Path(__file__).parents[1]
INSTALL = "python -m pip install uv && "


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def commands_of(page: str) -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", read(page), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_readme_gives_the_commands_for_a_clean_checkout():
    install, quickstart, tests = commands_of("README.md")
    assert install == "python -m pip install ."
    assert quickstart.startswith(INSTALL)
    assert (ROOT / quickstart.split()[-1]).is_file()
    assert tests == commands_of("CONTRIBUTING.md")[0]


def agree(said: str, printed: str) -> bool:
    """Whether two lines agree: in words, and in the first two numbers up to their noise."""
    one, other = said.split(), printed.split()
    if len(one) != 10 or one[0] == "mean":
        # Widths of columns depend on the draws.
        return [re.sub(r"[\d.]+", "#", word) for word in one] == [
            re.sub(r"[\d.]+", "#", word) for word in other
        ]
    mean, sd = (float(value) for value in one[1:3])
    close = abs(float(other[1]) - mean) < sd and float(other[2]) == pytest.approx(sd, rel=0.3)
    return one[0] == other[0] and close


def test_the_blocks_of_the_readme_run_as_pasted(tmp_path):
    pasted = r"```python\n(.*?)```\n\n```text\n(.*?)```"
    codes, outputs = zip(*re.findall(pasted, read("README.md"), flags=re.DOTALL), strict=True)
    for code, call in zip(
        codes, ("TunaMH())", "BarkerMinibatchMH())", "sample(model)"), strict=True
    ):
        assert call in code
    env = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    command = [sys.executable, "-c", "\n".join(codes)]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    # Messages and progress come between. Without a seed, draws differ from run to run.
    printed = iter(done.stdout.splitlines())
    for line in "".join(outputs).splitlines():
        assert any(agree(line.strip(), other.strip()) for other in printed), line


def test_ci_runs_the_test_command_of_the_readme_to_the_letter():
    lines = [line.strip() for line in read(".ci/run").splitlines()]
    assert commands_of("README.md")[-1] in lines


def test_hosted_ci_runs_the_same_script_with_pinned_actions():
    workflow = read(".github/workflows/ci.yml")
    assert "run: bash .ci/run" in workflow
    actions = re.findall(r"uses: (\S+)", workflow)
    assert actions
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in actions)


def jobs() -> dict[str, dict]:
    return yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]


def commands(job: str) -> list[str]:
    return [step["run"] for step in jobs()[job]["steps"] if "run" in step]


def test_the_fast_tier_runs_on_every_version_and_on_macos():
    classifiers = tomllib.loads(read("pyproject.toml"))["project"]["classifiers"]
    supported = {v for c in classifiers if (v := c.split(" :: ")[-1]).startswith("3.")}
    ways = jobs()["fast"]["strategy"]["matrix"]["include"]
    linux = {way["python"] for way in ways if way["os"].startswith("ubuntu")}
    assert linux | {read(".python-version").strip()} == supported
    assert any(way["os"].startswith("macos") for way in ways)
    assert commands("fast")[-1] == "python -m uv run --python ${{ matrix.python }} pytest -n 2"
    assert "if" not in jobs()["fast"]


def test_the_slow_tier_and_all_mutants_run_every_week():
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))
    # YAML 1.1 takes the key "on" for a truth value.
    (when,) = workflow[True]["schedule"]
    assert len(when["cron"].split()) == 5
    assert re.fullmatch(r"\d+ \d+ \* \* \d", when["cron"])
    assert "schedule" in jobs()["slow"]["if"]
    assert jobs()["slow"]["strategy"]["matrix"]["part"] == list(range(1, PARTS + 1))
    asked = f"python -m uv run pytest -n 2 -m slow --shard ${{{{ matrix.part }}}}/{PARTS}"
    assert commands("slow")[-1] == asked
    # A mutant is in the fast tier, or else slow.
    assert {mark.name for case in MUTANTS for mark in case.marks} == {"slow"}


def test_the_lowest_versions_are_installed_with_and_without_extras():
    matrix = jobs()["install"]["strategy"]["matrix"]
    lowest = [way for way in matrix["include"] if way["resolution"] == "lowest-direct"]
    assert [way.get("extras", "").split(",") for way in lowest] == [[""], [*EXTRAS]]
    optional = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    # Backends of plots are left to the tests.
    assert EXTRAS.keys() == optional.keys() - {"bokeh", "plotly"}


def test_wheels_of_other_platforms_sample_where_they_can_be_installed():
    build = ast.parse(read("hatch_build.py"))
    (targets,) = (
        ast.literal_eval(node.value)
        for node in build.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "TARGETS"
    )
    tags = {tag for tag, _ in targets.values()}
    tried = {way["tag"] for way in jobs()["sample"]["strategy"]["matrix"]["include"]}
    assert tried < tags
    # Numba has no wheels for these, or none of its last releases.
    assert all(re.search("musl|macosx.*x86_64", tag) for tag in tags - tried)
    assert jobs()["sample"]["needs"] == "wheels"
    assert commands("wheels")[-1] == "bash .ci/wheels dist"
    assert (ROOT / ".ci/wheels").stat().st_mode & 0o111


def test_citation_and_metadata_agree():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    citation = read("CITATION.cff")
    assert re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE)[1] == project["version"]
    assert re.search(r"^license: (\S+)$", citation, flags=re.MULTILINE)[1] == project["license"]


METHODS = [name for name in pymc_minibatch_mh.__all__ if re.fullmatch(r"[A-Z]\w+MH", name)]
METHODS.remove("CustomTestMH")
for published in ("BarkerPaperMH", "ConfidenceScanMH", "TunaPaperMH"):
    METHODS.remove(published)  # the paper of another method


def test_every_method_is_cited_with_its_paper():
    cited = {one["notes"]: one for one in yaml.safe_load(read("CITATION.cff"))["references"]}
    assert cited.keys() == set(METHODS)
    for name in METHODS:
        described = " ".join(inspect.getdoc(getattr(pymc_minibatch_mh, name)).split())
        # The first is the method's own; others are of what it is compared with.
        names, year, title = re.search(
            r"References -+ ([\w\s,-]+?) \((\d+)\), \"(.+?)\"", described
        ).groups()
        paper = cited[name]
        assert paper["title"].lower() == title.lower()
        assert [author["family-names"] for author in paper["authors"]] == names.split(", ")
        assert paper["year"] == int(year)
        given = [*re.findall(r"doi:(\S+)\.(?: |$)", described), None]
        assert paper.get("doi", given[0]) == given[0] or given == [None]


def test_links_between_pages_lead_somewhere():
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/*/*.md"),
        *ROOT.glob("tests/**/README.md"),
    ]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), (page, target)


def test_documented_statistics_are_the_recorded_ones():
    tables = read("docs/stats.md").split("\n## ")[1:3]
    rows = [re.findall(r"^\| (`.+?) \| (\w+) \|", one, flags=re.MULTILINE) for one in tables]
    of_all, of_some = (
        {name: dtype for names, dtype in one for name in re.findall(r"`(\w+)`", names)}
        for one in rows
    )
    for documented, whether in ((of_all, True), (of_some, False)):
        own = {name: one for name, one in STATS.items() if (one.needs is None) == whether}
        assert documented == {name: np.dtype(one.dtype).name for name, one in own.items()}


VERSION = "{}.{}".format(*sys.version_info)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resolution", "extras"),
    [("highest", ""), ("lowest-direct", ""), ("lowest-direct", ",".join(EXTRAS))],
)
def test_a_wheel_samples_in_an_environment_of_its_own(resolution, extras):
    assert "site-packages" in sampled_from_a_wheel(VERSION, resolution, extras)
