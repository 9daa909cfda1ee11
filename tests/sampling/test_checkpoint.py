"""A run in a folder goes on from every moment at which it can have been killed, bit for bit."""

import io
import shutil
import zipfile
from functools import partial

import numpy as np
import pymc as pm
import pytest

from helpers.models import two_likelihoods
from helpers.zoo import METHODS
from law.golden.combinations import COMBINATIONS, Combination, of_family
from proposals.test_custom_proposal import adapt, langevin
from pymc_minibatch_mh import CustomProposal, PenaltyMH, TunaMH, sample
from pymc_minibatch_mh.chain import chain as chains
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.statistics import numbers
from pymc_minibatch_mh.sampling import checkpoint, workers
from pymc_minibatch_mh.sampling.checkpoint import Checkpoint, fill_record, record_leaves
from robustness.endurance.test_full_disk import files_of_at_most

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

QUIET = {"progressbar": False, "compute_convergence_checks": False}
#: Of the chains of one run; the second one of several begins when the first one has ended.
RUN = {"tune": 130, "chains": 2, "random_seed": 5, "discard_tuned_samples": False, "cores": 1}
DRAWS = 60
#: What is not the same in a run that was cut: the time.
TIMES = {"perf_counter_diff", "created_at", "sampling_time", "preparation_time"}


def same_trace(one, other):
    """Require equal draws, statistics, groups and attributes, but for times."""
    assert set(one.children) == set(other.children)
    for group in one.children:
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name in set(one[group].variables) - TIMES:
            np.testing.assert_array_equal(one[group][name], other[group][name], err_msg=name)
        said = [{k: v for k, v in x[group].attrs.items() if k not in TIMES} for x in (one, other)]
        assert repr(said[0]) == repr(said[1])


def often(monkeypatch):
    """Have a block written after every few draws, before the chain goes on."""
    monkeypatch.setattr(workers, "FIRST_BLOCK", 37)
    monkeypatch.setattr(workers, "GROWTH", 1)
    monkeypatch.setattr(workers, "BLOCK_SECONDS", np.inf)
    monkeypatch.setattr(checkpoint.os, "fsync", lambda file: None)
    for name in ("MIN_SECONDS", "MAX_BLOCK_SHARE"):
        monkeypatch.setattr(checkpoint, name, 0.0)
    monkeypatch.setattr(checkpoint, "MAX_WRITING_SHARE", np.inf)
    keep = Checkpoint.keep

    def at_once(self, run, number, ended):
        keep(self, run, number, ended)
        if self._last[number] is not None:
            self._last[number].result()

    monkeypatch.setattr(Checkpoint, "keep", at_once)


def moments_of(monkeypatch, tmp_path):
    """Copy the folder after every file that is written, as a kill leaves it."""
    found, write = [], checkpoint.write_with_text

    def written(path, *arrays):
        digest = write(path, *arrays)
        if path.parent.name == "run" and (path.parent / checkpoint.RUN_FILE).exists():
            found.append(tmp_path / f"killed {len(found)}")
            shutil.copytree(path.parent, found[-1])
            # What a kill leaves that comes in the middle of a file.
            (found[-1] / "chain-0.npz.part").write_bytes(b"PK half")
        return digest

    monkeypatch.setattr(checkpoint, "write_with_text", written)
    return found


#: Chains whose states are not like others.
UNUSUAL = {
    name: COMBINATIONS[name]
    for name in ("rows in files", "annealed", "a test of a user", "crossed effects by elements")
} | {
    "a move that adapts": Combination(
        of_family("poisson"),
        "PenaltyMH",
        {"proposal": partial(CustomProposal, langevin, state=[0.01], batch_size=50, adapt=adapt)},
    ),
}  # fmt: skip


#: Those whose like another case of the fast tier has.
ALIKE = {
    "FireflyMH",
    "a test of a user",
    "a move that adapts",
    "annealed",
    "crossed effects by elements",
}
CHAINS = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE))
    for name in ("TunaMH", "FireflyMH", *UNUSUAL)
]


@pytest.mark.parametrize("name", CHAINS)
def test_a_run_goes_on_from_every_moment(prepared, monkeypatch, tmp_path, name):
    often(monkeypatch)
    moments = moments_of(monkeypatch, tmp_path)
    # Every centre is moved at the end of warm-up.
    monkeypatch.setattr(chains, "MIN_SHIFT", 0.0)
    way = UNUSUAL.get(name)
    step = way.step(way.model(tmp_path)) if way else prepared("two_likelihoods", name)
    given = RUN | QUIET | ({"tune": 450, "chains": 1} if name == "annealed" else {})
    whole = sample(step, DRAWS, **given)
    same_trace(sample(step, DRAWS, checkpoint=tmp_path / "run", **given), whole)
    assert len(moments) > 8
    monkeypatch.setattr(checkpoint, "MIN_SECONDS", 1e9)
    # Of the files between two of these the next one is of another kind: a block, then a state.
    for folder in moments[::5]:
        same_trace(sample(step, DRAWS, resume=folder, **given), whole)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_on(prepared, method, tmp_path):
    step = prepared("two_likelihoods", method, updates_per_draw=3)
    whole = sample(step, DRAWS, **RUN, **QUIET)
    sample(step, 20, checkpoint=tmp_path / "run", **RUN, **QUIET)
    given = {**RUN, "cores": 2, "chains": None, "random_seed": None}
    same_trace(sample(step, DRAWS, resume=tmp_path / "run", **given, **QUIET), whole)


def begun_run(prepared, tmp_path):
    """A step, a folder with half of a run, and the whole of it."""
    step = prepared("two_likelihoods", "TunaMH")
    sample(step, 20, checkpoint=tmp_path / "run", **RUN, **QUIET)
    return step, tmp_path / "run"


def resumed(step, folder, draws=DRAWS, **settings):
    return sample(step, draws, resume=folder, **{**RUN, **QUIET, **settings})


def test_a_run_that_has_ended_is_read_and_goes_on(prepared, tmp_path, monkeypatch):
    step, folder = begun_run(prepared, tmp_path)
    first = resumed(step, str(folder), 20)
    monkeypatch.setattr(workers.Chain, "advance", None)
    same_trace(resumed(step, folder, 20), first)
    monkeypatch.undo()
    said = []
    monkeypatch.setattr(checkpoint._log, "info", lambda *words: said.append(words[0] % words[1:]))
    longer = resumed(step, folder)
    assert said[0] == f"Continuing the run in {str(folder)!r}, which has 300 of 380 draws."
    same_trace(longer, sample(step, DRAWS, **RUN, **QUIET))
    with pytest.raises(SettingError, match=r"^draws=20 are fewer than a chain .* has, 60\."):
        resumed(step, folder, 20)
    # A trace goes on from the end of a run as from any other.
    assert sample(step, 5, resume=longer, **QUIET).posterior["draw"][0] == DRAWS


def test_a_step_that_was_prepared_otherwise_goes_on_with_the_same_bits(
    prepared, tmp_path, model_of
):
    step, folder = begun_run(prepared, tmp_path)
    model = model_of("two_likelihoods")
    start = {"level": np.array(0.01), "slope": np.array(0.07)}
    other = TunaMH(model=model, initial_point=start)
    assert not np.array_equal(other.reference.centre, step.reference.centre)
    trace, whole = resumed(other, folder), sample(step, DRAWS, **RUN, **QUIET)
    assert trace.posterior.equals(whole.posterior)


def test_what_is_computed_of_draws_is_that_of_one_run(tmp_path):
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((2, 12_000))
    with pm.Model():
        slope = pm.Normal("slope", 0.0, 2.0)
        mu = pm.Deterministic("mu", slope * x)
        pm.Deterministic("double", 2.0 * slope)
        pm.Normal("y", mu, 1.0, observed=0.5 * x + noise)
        step = PenaltyMH()
    given = {"tune": 60, "chains": 2, "random_seed": 3, "var_names": ["slope", "mu", "double"]}
    whole = sample(step, 250, **given, **QUIET)
    sample(step, 130, checkpoint=tmp_path / "run", **given, **QUIET)
    trace = sample(step, 250, resume=tmp_path / "run", **given, **QUIET)
    same_trace(trace, whole)
    assert trace["posterior_thinned"].sizes["draw"] == whole["posterior_thinned"].sizes["draw"]


@pytest.mark.parametrize("phase", ["tuned", "drawn"])
def test_an_interrupt_leaves_a_run_that_goes_on(prepared, monkeypatch, tmp_path, phase):
    step = prepared("two_likelihoods", "TunaMH")
    tune = 1_000_000 if phase == "tuned" else 130
    given = {**RUN, **QUIET, "tune": tune, "cores": 2, "discard_tuned_samples": True}

    def show(self, progress):
        if max(getattr(one, phase) for one in progress) > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(workers.Bars, "show", show)
    monkeypatch.setattr(workers, "SECONDS_BETWEEN_CHECKS", 0.001)
    try:
        sample(step, 5_000_000, checkpoint=tmp_path / "run", **given)
    except KeyboardInterrupt:
        assert phase == "tuned"
    monkeypatch.undo()
    found = Checkpoint.open(tmp_path / "run")
    ends = found.ends(step)
    made = [state.n_draws for state, _, _ in ends]
    assert max(made) > 0
    assert [tuned + drawn for tuned, drawn in found._written] == made


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_of_numpy_go_on(prepared, tmp_path, name):
    step, given = prepared("two_likelihoods", "TunaMH"), {"chains": 1, "tune": 60, **QUIET}

    def seed():
        return np.random.Generator(getattr(np.random, name)(3))

    whole = sample(step, 40, random_seed=seed(), **given)
    sample(step, 10, random_seed=seed(), checkpoint=tmp_path / "run", **given)
    trace = sample(step, 40, random_seed=seed(), resume=tmp_path / "run", **given)
    assert trace.posterior.equals(whole.posterior)


def test_other_settings_of_a_run_are_refused(prepared, tmp_path):
    step, folder = begun_run(prepared, tmp_path)
    for name, value in (("discard_tuned_samples", True), ("tune", 20), ("chains", 3)):
        with pytest.raises(SettingError, match=f"^{name}={value} is not that of the run in "):
            resumed(step, folder, **{name: value})
    point = {"level": 0.01, "slope": 0.02}
    for name, value in (("random_seed", 6), ("initvals", point)):
        with pytest.raises(SettingError, match=f"^{name}= is for new chains, but the chains of"):
            resumed(step, folder, **{name: value})
    with pytest.raises(
        SettingError, match=r"^checkpoint=.* already has a run. Continue .* resume="
    ):
        sample(step, 20, checkpoint=folder, **QUIET)
    with pytest.raises(SettingError, match=r"^checkpoint= does not go with resume="):
        resumed(step, folder, checkpoint=tmp_path / "other")
    for path in (tmp_path, folder / "run.npz"):
        with pytest.raises(SettingError, match=r"^checkpoint=.* is not an empty folder"):
            sample(step, 20, checkpoint=path, **QUIET)
    with pytest.raises(SettingError, match=r"^checkpoint=7 is not a path"):
        sample(step, 20, checkpoint=7, **QUIET)
    with pytest.raises(SettingError, match=r"^resume=.*nowhere' has no run"):
        resumed(step, tmp_path / "nowhere")


def test_other_steps_models_and_data_are_refused(prepared, tmp_path):
    _, folder = begun_run(prepared, tmp_path)
    for step, what in (
        (prepared("two_likelihoods", "PenaltyMH"), "method \\(TunaMH, not PenaltyMH\\)"),
        (prepared("two_likelihoods", "TunaMH", updates_per_draw=5), "updates_per_draw"),
        (prepared("two_likelihoods", "TunaMH", tune=False), "tune"),
        (prepared("poisson", "TunaMH"), "the prior part"),
        (TunaMH(model=two_likelihoods(rows=3_400)), "'seen'"),
    ):
        with pytest.raises(SettingError, match=f"is the run of a step that differs in {what}"):
            resumed(step, folder)


def rewritten(data, change):
    """Return an archive as np.savez writes it, with one of its arrays changed."""
    arrays, out = dict(np.load(io.BytesIO(data))), io.BytesIO()
    change(arrays)
    np.savez(out, **arrays)
    return out.getvalue()


def edited(name):
    def change(arrays):
        array = arrays[name] = arrays[name].copy()
        array.reshape(-1)[0] += 1

    return partial(rewritten, change=change)


def flipped(data):
    """Return the data of an archive with one bit of a member flipped."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    first = archive.read(archive.namelist()[0])
    place = data.index(first) + len(first) - 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


#: File of a run, and what becomes of its bytes.
DAMAGES = {
    "cut": ("chain-0-0.npz", lambda data: data[: len(data) // 2]),
    "empty": ("chain-1.npz", lambda data: b""),
    "flipped": ("chain-0-0.npz", flipped),
    "a state flipped": ("chain-0.npz", flipped),
    "a draw": ("chain-1-0.npz", edited("draws.positions")),
    "a state": ("chain-0.npz", edited("state.reference.centre")),
    "a position": ("chain-0.npz", edited("position")),
    "text": ("chain-0.npz", edited("text")),
    "settings": ("run.npz", edited("text")),
    "pickled": ("chain-0.npz", lambda data: rewritten(data, lambda x: x.update(a=np.array({})))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_as_it_was_written_is_named(prepared, tmp_path, damage):
    step, folder = begun_run(prepared, tmp_path)
    name, change = DAMAGES[damage]
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SettingError, match=f"^resume=.*{name} is damaged, altered or missing"):
        resumed(step, folder)


def test_files_of_another_run_are_refused(prepared, tmp_path):
    step, folder = begun_run(prepared, tmp_path)
    given = {**RUN, **QUIET, "random_seed": 6}
    sample(step, 20, checkpoint=tmp_path / "other", **given)
    ours = {one.name: one.read_bytes() for one in folder.iterdir()}
    for name, other, message in (
        ("chain-0.npz", tmp_path / "other" / "chain-0.npz", "is a chain of another run"),
        ("chain-0.npz", folder / "chain-1.npz", "is a chain of another run"),
        ("chain-0-0.npz", tmp_path / "other" / "chain-0-0.npz", "another file of that name"),
        ("chain-0-0.npz", folder / "chain-1-0.npz", "another file of that name"),
        ("chain-1-0.npz", None, "missing"),
    ):
        if other is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(other.read_bytes())
        with pytest.raises(SettingError, match=f"^resume=.*{name} .*{message}"):
            resumed(step, folder)
        (folder / name).write_bytes(ours[name])


def test_a_full_disk_is_said_and_takes_no_draws(prepared, monkeypatch, tmp_path):
    step, said = prepared("two_likelihoods", "TunaMH"), []
    for level in ("warning", "error"):
        monkeypatch.setattr(checkpoint._log, level, lambda *words: said.append(words[0]))
    with files_of_at_most(500), pytest.raises(OSError, match=r"too large: '.*chain-0\.npz'"):
        sample(step, DRAWS, checkpoint=tmp_path / "run", **RUN, **QUIET)
    whole = sample(step, 2_000, **RUN, **QUIET)
    with files_of_at_most(20_000):
        trace = sample(step, 2_000, checkpoint=tmp_path / "run", **RUN, **QUIET)
    same_trace(trace, whole)
    failed, ended = [text for text in said if "checkpoint" in text]
    assert failed.startswith("The checkpoint cannot be written: %s.")
    assert ended.startswith("The last draws are not in the checkpoint %r: %s.")
    names = {one.name for one in (tmp_path / "run").iterdir()}
    assert names == {"run.npz", "chain-0.npz", "chain-1.npz"}
    same_trace(resumed(step, tmp_path / "run", 2_000), whole)


def test_a_state_that_was_not_written_is_written_again(prepared, monkeypatch, tmp_path):
    often(monkeypatch)
    step = prepared("two_likelihoods", "TunaMH")
    write, failed = checkpoint.write_with_text, []

    def full(path, arrays, text):
        if path.name == "chain-1.npz" and text["drawn"] == 20 and not failed:
            failed.append(path)
            raise OSError(28, "No space left on device", str(path))
        return write(path, arrays, text)

    monkeypatch.setattr(checkpoint, "write_with_text", full)
    whole = sample(step, DRAWS, **RUN, **QUIET)
    sample(step, 20, checkpoint=tmp_path / "run", **RUN, **QUIET)
    assert failed
    found = Checkpoint.open(tmp_path / "run")
    assert [state.n_draws for state, _, _ in found.ends(step)] == [150, 150]
    same_trace(resumed(step, tmp_path / "run"), whole)


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "chain-0.npz"
    digest = checkpoint.write_with_text(path, {"x": np.ones(3)}, {"n": 1})
    with files_of_at_most(2_000), pytest.raises(OSError, match="too large"):
        checkpoint.write_with_text(path, {"x": np.zeros(5_000)}, {"n": 2})
    assert [one.name for one in tmp_path.iterdir()] == ["chain-0.npz"]
    arrays, text, _ = checkpoint.read_with_text(path, digest)
    np.testing.assert_array_equal(arrays["x"], np.ones(3))
    assert text == {"n": 1}


def test_records_of_anything_but_numbers_are_refused_by_name():
    with pytest.raises(SettingError, match=r"cannot write 'state\.proposal\.1' .* type dict"):
        dict(record_leaves("state.proposal", (1.0, {"a": 1})))
    record = (1, 2.5, True, "text", np.eye(2, dtype=np.float32), (np.arange(3),))
    stored = dict(record_leaves("x", record))
    found = fill_record("x", record, stored)
    assert [type(part) for part in found] == [type(part) for part in record]
    np.testing.assert_array_equal(found[5][0], np.arange(3))
    with pytest.raises(KeyError):
        fill_record("x", (np.zeros((2, 2)),), {"x.0": np.zeros(2)})


def test_a_generator_that_is_not_numpys_is_refused(prepared, tmp_path):
    class Own(np.random.PCG64):
        pass

    chain = prepared("two_likelihoods", "TunaMH").chain.copy()
    chain.rng = np.random.Generator(Own(1))
    with pytest.raises(SettingError, match=r"^random_seed= has the bit generator Own"):
        checkpoint.starts_digest([chain])


def test_a_state_is_that_of_its_moment(prepared):
    chain = prepared("two_likelihoods", "TunaMH").chain.copy()
    taken = dict(record_leaves("state", (chain.state.window, chain.state.total)))
    numbers(chain.state.window)[...] += 1.0
    assert not np.array_equal(taken["state.0"], chain.state.window)


def test_a_run_goes_on_in_one_process_at_a_time(prepared, tmp_path):
    step, folder = begun_run(prepared, tmp_path)
    first, second = Checkpoint.open(folder), Checkpoint.open(folder)
    for one in (first, second):
        one.ends(step)
    first.lock()
    with pytest.raises(SettingError, match=r"^Another process continues the run in"):
        resumed(step, folder)
    first.close()
    resumed(step, folder)
    # It was read before the run went on.
    with pytest.raises(SettingError, match=r"^Another process continues the run in"):
        second.lock()
    second.close()
    resumed(step, folder)
