"""A file of a prepared step is read as it was saved, or refused."""

import fcntl
import io
import json
import pickle
import threading
import zipfile
from functools import cache

import numpy as np
import pymc as pm
import pytest

from helpers.models import slopes
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.data import archive
from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.plan import file
from test_architecture import ARROWS

#: How an array is altered in a well-formed file.
ALTERED = {
    "a number": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size // 2, x + 1, x),
    "a type": lambda x: x.astype(np.float32 if x.dtype == np.float64 else np.float64),
    "a shape": lambda x: x[None],
    "an order": lambda x: x[..., ::-1] if x.ndim else x + 1,
    "nothing left": lambda x: x.ravel()[:0],
}
sources = file._sources_digest


@pytest.fixture(autouse=True)
def sources_are_read_once(monkeypatch):
    """Files are read hundreds of times here, and the sources of this package with each of them."""
    monkeypatch.setattr(file, "_sources_digest", cache(sources))


@cache
def own_bounds(metric=None):
    """Return a step on bounds of a user, its model and the bounds: rows r²/2 of a small slope."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(1_200)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("slope") * x, 1.0, observed=x + rng.standard_normal(1_200))
    bounds = Bounds(np.full(1_200, 50.0), metric)
    return TunaMH(model=model, bounds=bounds, taylor_order=0), model, bounds


def far(position, new):
    return 2.0 * abs(new[0] - position[0]) * (1.0 + abs(new[0]) + abs(position[0]))


@cache
def by_elements():
    return TunaMH(model=slopes(), blocks=True)


#: What files hold: bounds, batches, effects one by one, and bounds of a user.
KINDS = {
    "TunaMH": lambda prepared: prepared("poisson", "TunaMH"),
    "PenaltyMH": lambda prepared: prepared("poisson", "PenaltyMH"),
    "by elements": lambda _: by_elements(),
    "a user's": lambda _: own_bounds()[0],
}


def members(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def flat(plan):
    """Return all arrays and numbers of a plan by their names."""
    return plan.stored_arrays()


def require_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_what_was_saved(prepared, kind, tmp_path):
    step, path = KINDS[kind](prepared), tmp_path / "step.npz"
    step.save(path)
    require_equal(flat(step.plan), flat(file.read(path, step.target)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_altered_array_is_refused_by_its_name(prepared, kind, tmp_path):
    step, path, missed = KINDS[kind](prepared), tmp_path / "step.npz", []
    step.save(path)
    saved = members(path)
    for name in saved.keys() - {"key"}:
        for how, alter in ALTERED.items():
            altered = alter(saved[name])
            if altered.shape == saved[name].shape and altered.tobytes() == saved[name].tobytes():
                continue
            np.savez(path, **{**saved, name: altered})
            try:
                file.read(path, step.target)
            except SettingError as error:
                if f"was altered after step.save(): the array {name!r} has changed" in str(error):
                    continue
            missed.append((name, how))
    assert missed == []


def test_an_array_too_few_or_too_many_is_refused(prepared, tmp_path):
    step, path = prepared("poisson", "TunaMH"), tmp_path / "step.npz"
    step.save(path)
    saved = members(path)
    for changed in ({n: x for n, x in saved.items() if n != "c"}, {**saved, "more": np.ones(3)}):
        np.savez(path, **changed)
        with pytest.raises(SettingError, match=r"the array '(c|more)' is missing or was added"):
            file.read(path, step.target)


def about(path):
    return json.loads(str(members(path)["key"]))


@pytest.mark.parametrize(
    "change",
    [
        lambda key: {**key, "model": None},
        lambda key: {**key, "arrays": {}},
        lambda key: {**key, "arrays": [*key["arrays"]]},
        lambda key: {**key, "arrays": key["arrays"] | {"c": "0"}},
        lambda key: [key],
        lambda key: "a step",
    ],
    ids=["no model", "no arrays", "no digests", "another digest", "a list", "a text"],
)
def test_an_altered_key_is_refused(change, prepared, tmp_path):
    step, path = prepared("poisson", "TunaMH"), tmp_path / "step.npz"
    step.save(path)
    np.savez(path, **{**members(path), "key": np.asarray(json.dumps(change(about(path))))})
    with pytest.raises(SettingError, match="Leave it out"):
        file.read(path, step.target)


def damaged(content, rng):
    """Yield the bytes of a file with one of them changed, some cut out, or the end cut off."""
    ends = [*range(200), *range(len(content) - 3_000, len(content))]
    # Directories and headers of an archive are few of its bytes, and the most delicate.
    for place in [*rng.choice(ends, 300, replace=False), *rng.integers(0, len(content), 100)]:
        bits = 1 << rng.integers(0, 8) if rng.random() < 0.5 else rng.integers(1, 256)
        yield content[:place] + bytes([content[place] ^ int(bits)]) + content[place + 1 :]
    for place in rng.integers(0, len(content), 60):
        yield content[:place]
        yield content[:place] + content[place + int(rng.integers(1, 2_000)) :]
    yield from (b"", content + content, content[::-1], content + b"\0")


@pytest.mark.parametrize("kind", ["TunaMH", "PenaltyMH"])
@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional")
def test_a_damaged_file_is_refused_or_read_as_it_was(prepared, kind, tmp_path):
    step, path = KINDS[kind](prepared), tmp_path / "step.npz"
    step.save(path)
    content, saved, refused, other = path.read_bytes(), flat(step.plan), 0, []
    for number, changed in enumerate(damaged(content, np.random.default_rng(8))):
        path.write_bytes(changed)
        try:
            found = flat(file.read(path, step.target))
        except (SettingError, StaleDataError):
            refused += 1
        except Exception as error:
            other.append((number, repr(error)))
        else:
            require_equal(saved, found)
    assert other == []
    assert refused > 300


def headers(content, rng):
    """Yield archives of which the header of a member has changed, and its checksum with it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        whole = {info.filename: archive.read(info) for info in archive.infolist()}
    for name, member in whole.items():
        for _ in range(10):
            changed = bytearray(member)
            changed[rng.integers(0, 100)] = rng.integers(0, 256)
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w") as archive:
                for other, held in whole.items():
                    archive.writestr(other, bytes(changed) if other == name else held)
            yield made.getvalue()


@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional")
def test_a_header_that_says_something_else_is_refused(prepared, tmp_path):
    step, path, other = prepared("poisson", "PenaltyMH"), tmp_path / "step.npz", []
    step.save(path)
    saved = flat(step.plan)
    for changed in headers(path.read_bytes(), np.random.default_rng(9)):
        path.write_bytes(changed)
        try:
            require_equal(saved, flat(file.read(path, step.target)))
        except (SettingError, StaleDataError):
            pass
        except Exception as error:
            other.append(repr(error))
    assert other == []


class Bomb:
    """Notes that it was unpickled."""

    gone_off = False

    def __reduce__(self):
        return setattr, (Bomb, "gone_off", True)


@pytest.mark.parametrize("member", ["c", "key", "more"])
def test_a_pickle_in_an_archive_is_not_read(member, prepared, tmp_path):
    """SECURITY.md: no pickle files are read."""
    step, path = prepared("poisson", "TunaMH"), tmp_path / "step.npz"
    step.save(path)
    changed = {**members(path), member: np.array([Bomb()], dtype=object)}
    np.savez(path, allow_pickle=True, **changed)
    with pytest.raises(SettingError, match="Leave it out"):
        file.read(path, step.target)
    assert not Bomb.gone_off
    # It would go off.
    with np.load(path, allow_pickle=True) as archive:
        _ = archive[member]
    assert Bomb.gone_off
    Bomb.gone_off = False


def test_a_pickle_is_not_read(prepared, tmp_path):
    (tmp_path / "step.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(SettingError, match=r"was not written by step.save\(\)"):
        file.read(tmp_path / "step.npz", prepared("poisson", "TunaMH").target)
    assert not Bomb.gone_off


def test_bounds_of_a_user_stay_a_users(tmp_path):
    step, model, bounds = own_bounds()
    step.save(tmp_path / "step.npz")
    again = TunaMH(model=model, taylor_order=0, prepared=tmp_path / "step.npz")
    assert not again.tables.verified
    np.testing.assert_array_equal(again.tables.c, step.tables.c)
    assert again.exactness == step.exactness
    assert "custom bounds hold, which are unverified" in again.exactness
    given = Bounds(2.0 * bounds.c)
    other = TunaMH(model=model, taylor_order=0, prepared=tmp_path / "step.npz", bounds=given)
    np.testing.assert_array_equal(other.tables.c, 2.0 * step.tables.c)


def test_bounds_with_a_function_of_a_user_are_not_saved_and_said_so(tmp_path, caplog):
    step, model, _ = own_bounds(far)
    step.save(tmp_path / "step.npz")
    assert "Pass bounds= again with prepared=" in caplog.text
    again = TunaMH(model=model, taylor_order=0, prepared=tmp_path / "step.npz")
    assert again.tables.verified
    assert "derived from the model" in again.exactness


def test_a_file_of_another_version_is_refused(prepared, tmp_path, monkeypatch):
    step, path = prepared("poisson", "TunaMH"), tmp_path / "step.npz"
    step.save(path)
    monkeypatch.setattr(file, "_sources_digest", lambda _: "others")
    message = "was saved by another version of this package, which may have computed its contents"
    with pytest.raises(StaleDataError, match=message):
        file.read(path, step.target)
    step.save(path)
    monkeypatch.undo()
    with pytest.raises(StaleDataError, match=message):
        file.read(path, step.target)


def test_a_version_is_known_by_all_sources_that_compute_what_a_file_holds():
    # Published methods may bring tables of bounds of their own.
    computing, waiting = {"published"}, {"plan"}
    while waiting:
        room = waiting.pop()
        computing.add(room)
        waiting |= ARROWS[room] - computing
    # What no array depends on.
    computing -= {"errors", "checks", "progress", "threads"}
    assert {name.removesuffix(".py") for name in file.COMPUTING} == computing


SOURCES = [room if room.endswith(".py") else f"{room}/a.py" for room in file.COMPUTING]


@pytest.mark.parametrize("source", [*SOURCES, "native/a.c", "native/a.h"])
def test_every_source_counts(source, tmp_path):
    for one in {*SOURCES, source}:
        (tmp_path / one).parent.mkdir(exist_ok=True)
        (tmp_path / one).write_text("a = 1\n")
    before = sources(tmp_path)
    (tmp_path / source).write_text("a = 2\n")
    assert sources(tmp_path) != before


def test_what_killed_processes_leave_behind_is_removed(prepared, tmp_path):
    step, path = prepared("poisson", "PenaltyMH"), tmp_path / "step.npz"
    for name in ("step.npz.0123abcd.part", "step.npz.deadbeef.part"):
        (tmp_path / name).write_bytes(b"half a step")
    others = {"other.npz.0123abcd.part", "step.npz.mine.part", "step.npz.part"}
    for name in others:
        (tmp_path / name).write_bytes(b"of somebody else")
    with open(tmp_path / "step.npz.00000000.part", "wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        step.save(path)
        assert {one.name for one in tmp_path.iterdir()} == {
            "step.npz", "step.npz.00000000.part", *others,
        }  # fmt: skip
    step.save(path)
    assert {one.name for one in tmp_path.iterdir()} == {"step.npz", *others}


def test_two_that_save_at_once_leave_each_other_alone(prepared, tmp_path, monkeypatch):
    step, path = prepared("poisson", "PenaltyMH"), tmp_path / "step.npz"
    half, go_on, save = threading.Event(), threading.Event(), archive._write_members

    def slowly(part, arrays):
        if threading.current_thread() is not threading.main_thread():
            part.write(b"half")
            part.flush()
            half.set()
            go_on.wait()
            part.seek(0)
        return save(part, arrays)

    monkeypatch.setattr(archive, "_write_members", slowly)
    first = threading.Thread(target=step.save, args=(path,))
    first.start()
    half.wait()
    step.save(path)
    assert len([*tmp_path.glob("*.part")]) == 1
    path.unlink()
    go_on.set()
    first.join()
    assert [one.name for one in tmp_path.iterdir()] == ["step.npz"]
    require_equal(flat(step.plan), flat(file.read(path, step.target)))
