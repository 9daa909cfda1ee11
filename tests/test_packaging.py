import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from installs import sampled_from_a_wheel
from pymc_minibatch_mh.kernels.roles import STATS

ROOT = Path(__file__).parents[1]
INSTALL = "python -m pip install uv && "


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def readme_commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", read("README.md"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_readme_gives_the_commands_for_a_clean_checkout():
    install, quickstart, tests = readme_commands()
    assert install == "python -m pip install ."
    assert quickstart.startswith(INSTALL)
    assert tests.startswith(INSTALL)
    assert (ROOT / quickstart.split()[-1]).is_file()


def test_the_readme_runs_as_pasted(tmp_path):
    pasted = r"```python\n(.*?)```\n\n```text\n(.*?)```"
    ((code, output),) = re.findall(pasted, read("README.md"), flags=re.DOTALL)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # PyMC's progress bar comes before. Without a seed, draws differ from run to run.
    (before, *said), (after, *printed) = (
        [line.split() for line in text.splitlines()[-4:]] for text in (output, done.stdout)
    )
    assert after == before
    assert printed[-1] == said[-1]
    for one, other in zip(said[:-1], printed[:-1], strict=True):
        assert one[0] == other[0]
        assert abs(float(one[1]) - float(other[1])) < float(one[2])
        assert float(other[2]) == pytest.approx(float(one[2]), rel=0.3)


def test_ci_runs_the_readme_test_command_to_the_letter():
    lines = [line.strip() for line in read(".ci/run").splitlines()]
    assert readme_commands()[-1] in lines


def test_ci_script_can_be_executed():
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_hosted_ci_runs_the_same_script_with_pinned_actions():
    workflow = read(".github/workflows/ci.yml")
    assert "run: bash .ci/run" in workflow
    actions = re.findall(r"uses: (\S+)", workflow)
    assert actions
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in actions)


def test_package_is_marked_as_typed():
    assert (ROOT / "pymc_minibatch_mh/py.typed").is_file()


def test_citation_and_metadata_agree():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    citation = read("CITATION.cff")
    assert re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE)[1] == project["version"]
    assert re.search(r"^license: (\S+)$", citation, flags=re.MULTILINE)[1] == project["license"]


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
    rows = re.findall(r"^\| (`.+) \| (\w+) \|", read("docs/stats.md"), flags=re.MULTILINE)
    documented = {name: dtype for names, dtype in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == {name: np.dtype(dtype).name for name, (dtype, *_) in STATS.items()}


VERSION = "{}.{}".format(*sys.version_info)


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_a_wheel_samples_in_an_environment_of_its_own(resolution):
    assert "site-packages" in sampled_from_a_wheel(VERSION, resolution)
