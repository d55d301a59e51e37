"""The two files of a model folder: whole, readable by all, one writer or two."""

import json
import os
import struct

import numpy as np
import pytest

from lucid.models import checkpoint

WEIGHTS = {"sat.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}
NAMES = ["config.json", "model.safetensors"]


def write(folder):
    checkpoint.write_weights(folder, WEIGHTS)
    checkpoint.write_config(folder, {"labels": 2})


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_files_have_the_permissions_of_any_new_file(tmp_path, umask):
    """The library that writes weights makes them private otherwise."""
    before = os.umask(umask)
    try:
        for _ in range(2):  # new files, then files that are replaced
            write(tmp_path)
            for name in NAMES:
                mode = (tmp_path / name).stat().st_mode & 0o777
                assert mode == 0o666 & ~umask, name
    finally:
        os.umask(before)


def test_two_writers_do_not_share_a_draft(tmp_path):
    path = tmp_path / "model.safetensors"

    def slowly(draft):
        draft.write_bytes(b"half")
        checkpoint._replace(path, lambda other: other.write_bytes(b"theirs"))
        assert path.read_bytes() == b"theirs"
        with draft.open("ab") as file:
            file.write(b" and half")

    checkpoint._replace(path, slowly)
    assert path.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "error", [OSError("disk full"), KeyboardInterrupt()]
)
def test_a_failed_writer_leaves_the_old_file_and_no_draft(tmp_path, error):
    write(tmp_path)
    path = tmp_path / "model.safetensors"
    before = path.read_bytes()

    def fail(draft):
        draft.write_bytes(before[:10])
        raise error

    with pytest.raises(type(error)):
        checkpoint._replace(path, fail)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == NAMES


@pytest.mark.parametrize("dtype, size", [("BF16", 2), ("F8_E4M3", 1)])
def test_a_dtype_that_numpy_lacks_is_named(tmp_path, dtype, size):
    entry = {"dtype": dtype, "shape": [2], "data_offsets": [0, 2 * size]}
    header = json.dumps({"w": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + bytes(2 * size)
    )
    with pytest.raises(
        ValueError, match=r"safetensors: .*NumPy lacks.*float"
    ):
        checkpoint.read_weights(tmp_path)


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="is a file, not a folder"):
        checkpoint.read_config(path)


def test_a_dtype_that_another_package_taught_numpy(tmp_path, monkeypatch):
    """CuPy imports ml_dtypes where it is installed; NumPy then reads BF16."""
    write(tmp_path)
    taught = {"w": np.zeros(2, "V2")}
    monkeypatch.setattr(checkpoint, "load_file", lambda path: taught)
    with pytest.raises(ValueError, match="NumPy lacks"):
        checkpoint.read_weights(tmp_path)
