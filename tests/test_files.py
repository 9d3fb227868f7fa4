"""Files are written completely or not at all; a folder is locked by one process."""

import json
import os
from pathlib import Path

import pytest

from bfq.errors import BadInput, DiskTrouble
from bfq.files import check_place, locked, write_json


def test_files_are_complete_or_absent(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    with pytest.raises(DiskTrouble, match="cannot write"):
        write_json(tmp_path / "no" / "a.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_is_locked_by_one_process_and_its_lock_is_not_emptied(tmp_path):
    (tmp_path / ".lock").write_text("kept")
    with locked(tmp_path), pytest.raises(BadInput, match="another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == "kept"


@pytest.mark.parametrize(
    "make", [lambda lock: lock.symlink_to("../precious"), os.mkfifo, Path.mkdir]
)
def test_a_lock_that_is_not_a_plain_file_is_refused_and_left_alone(tmp_path, make):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    make(tmp_path / "run" / ".lock")
    with pytest.raises(BadInput, match="not a plain file"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


@pytest.mark.parametrize("target", ["round", "nowhere"])
def test_a_broken_link_cannot_be_a_run_folder(tmp_path, target):
    (tmp_path / "round").symlink_to(target)
    with pytest.raises(BadInput, match="not a writable folder"):
        check_place(tmp_path / "round" / "run")
