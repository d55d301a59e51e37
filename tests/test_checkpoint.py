"""The two files of a model folder: whole, readable by all, one writer or two."""

import json
import os
import struct

import numpy as np
import pytest
from safetensors import SafetensorError

from lucid.models import checkpoint
from lucid.models.text.bert import BERTModel

WEIGHTS = {"sat.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}
NAMES = ["config.json", "model.safetensors"]


def write(folder):
    files = {
        "model.safetensors": checkpoint.as_weights(WEIGHTS),
        "config.json": checkpoint.as_json({"labels": 2}),
    }
    checkpoint.write_files(folder, files)


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
        theirs = {path.name: lambda other: other.write_bytes(b"theirs")}
        checkpoint.write_files(tmp_path, theirs)
        assert path.read_bytes() == b"theirs"
        with draft.open("ab") as file:
            file.write(b" and half")

    checkpoint.write_files(tmp_path, {path.name: slowly})
    assert path.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [path]


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize(
    "error, seen",
    [
        (OSError("disk full"), OSError),
        (PermissionError("not yours"), PermissionError),
        (SafetensorError("disk full"), OSError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("which", NAMES)
def test_a_failed_writer_leaves_the_old_files_and_no_draft(
    tmp_path, error, seen, which
):
    """Whichever of the two fails: weights and configuration are a pair."""
    write(tmp_path)
    before = contents(tmp_path)

    def fail(draft):
        draft.write_bytes(b"half")
        raise error

    writers = dict.fromkeys(NAMES, checkpoint.as_text("new"))
    message = f"{which} cannot be written .{error}" if str(error) else None
    with pytest.raises(seen, match=message):
        checkpoint.write_files(tmp_path, {**writers, which: fail})
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX's")
def test_a_model_that_finds_the_disk_full(tmp_path, tiny):
    """The system's own error, not a stand-in for it."""
    import resource

    BERTModel(tiny()).save_pretrained(tmp_path)
    before = contents(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(OSError, match=r"safetensors cannot be written"):
            BERTModel(tiny()).save_pretrained(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path) == before


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
