"""Every slow test is in one part, whoever asks, and no part takes much longer than another."""

from pathlib import Path

import pytest

from shards import PARTS, known, measured, part_of, shared_out

FILES = known()
NODES = [f"{file}::test_{k}" for file in FILES for k in range(50)]


def test_parts_take_less_than_forty_minutes_on_two_workers():
    _, minutes = shared_out(PARTS)
    assert sum(minutes) == pytest.approx(sum(FILES.values()))
    assert max(minutes) <= min(60.0, 1.5 * min(minutes))


def test_every_part_has_tests_and_files_that_are_not_known_belong_to_one():
    assert {part_of(node, PARTS) for node in NODES} == set(range(PARTS))
    unknown = {part_of(f"tests/test_new.py::test_{k}", PARTS) for k in range(50)}
    assert len(unknown) == 1
    assert unknown < set(range(PARTS))


def test_files_with_minutes_are_there():
    root = Path(__file__).parents[1]
    assert [file for file in FILES if not (root / file).exists()] == []


def test_minutes_are_those_of_reports(tmp_path):
    case = '<testcase classname="tests.robustness.rows.test_rows{}" name="test_x" time="{}"/>'
    text = "".join(case.format(inner, time) for inner, time in [("", 61.0), (".TestX", 5.0)])
    (tmp_path / "slow.xml").write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    assert measured([tmp_path / "slow.xml"]) == {"tests/robustness/rows/test_rows.py": 1.1}
