"""The records of a saved file, one at a time."""

import io

import pytest

import ember as torch


def test_records_of_a_file(tmp_path):
    path = tmp_path / "saved.pt"
    torch.save({"a": torch.arange(4.0), "b": torch.tensor([1, 2], dtype=torch.bfloat16)}, path)
    reader = torch.PyTorchFileReader(str(path))
    assert {"data.pkl", "data/0", "data/1", "version"} <= set(reader.get_all_records())
    assert reader.has_record("data/1") and not reader.has_record("data/2")
    assert reader.get_record("data/0") == torch.arange(4.0).numpy().tobytes()
    assert reader.get_storage_from_record("data/0", 4, torch.float32).tolist() == [0, 1, 2, 3]
    stored = reader.get_storage_from_record("data/0", 16, torch.UntypedStorage)
    assert stored.untyped_storage().nbytes() == 16
    found = reader.get_storage_from_record("data/1", 2, torch.bfloat16)
    assert found.dtype is torch.bfloat16 and found.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="16 bytes, its tensors say 20"):
        reader.get_storage_from_record("data/0", 5, torch.float32)
    with pytest.raises(RuntimeError, match="file not found"):
        reader.get_record("data/9")
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        torch.PyTorchFileReader(io.BytesIO(b"abc"))
