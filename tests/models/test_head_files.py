"""The files of a head: pickled, cut off, of another make, or not numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from localchat.errors import ModelError
from tests.support.head_files import HIDDEN, LAYERS, eagle3, medusa, run
from tests.support.models import VOCABULARY, save_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("heads") / "Tiny-4L", layers=LAYERS, hidden=HIDDEN)


@pytest.mark.parametrize("name", ["medusa_lm_head.pt", "pytorch_model.bin"])
def test_a_pickled_head_is_refused(model: Path, tmp_path: Path, name: str) -> None:
    """Guards against running a stranger's code; the hint's command makes a head that loads."""
    folder = medusa(tmp_path / "h") if name.startswith("medusa") else eagle3(tmp_path / "h")
    from safetensors.torch import load_file

    stored = load_file(folder / "model.safetensors")
    config = {"medusa_num_heads": 2} if name.startswith("medusa") else json.loads((folder / "config.json").read_text())
    if name.startswith("medusa"):
        stored = {re.sub(r"blocks\.(\d)\.0\.", r"\1.0.linear.", key): value for key, value in stored.items()}
        del stored["ids"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").unlink()
    torch.save(stored, folder / name)
    with pytest.raises(ModelError, match="pickle") as raised:
        run(model, draft=str(folder))
    code = re.search(r'python -c "(.+)"', raised.value.hint)
    assert code
    exec(code[1])
    assert run(model, draft=str(folder)).head is not None


def test_a_truncated_head(model: Path, tmp_path: Path) -> None:
    """Guards a download that broke off: one sentence before anything is loaded."""
    path = eagle3(tmp_path / "h") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="cut short"):
        run(model, draft=str(tmp_path / "h"))


def test_ids_of_no_token_are_left_out(tmp_path: Path) -> None:
    """Guards reduced vocabularies that reach into the padding of a head: penalties know no such token."""
    padded = save_tiny(tmp_path / "padded", layers=LAYERS, hidden=HIDDEN, vocab=320)

    def edit(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        config["vocab_size"] = 320
        tensors["d2t"] = torch.full((40,), VOCABULARY - 30)

    head = run(padded, draft=str(eagle3(tmp_path / "h", edit))).head
    assert head is not None
    assert head.ids is not None
    assert head.ids.tolist() == list(range(VOCABULARY - 30, VOCABULARY))
    assert head.score(torch.zeros(1, HIDDEN, dtype=torch.bfloat16)).shape == (1, 30)


def test_all_tokens_need_no_list_of_them(tmp_path: Path) -> None:
    """Guards a head that scores every token and says so with d2t and t2d all the same: ids in the padding of its target
    are no tokens, and penalties know none of them."""
    padded = save_tiny(tmp_path / "padded", layers=LAYERS, hidden=HIDDEN, vocab=320)

    def edit(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        config["vocab_size"] = config["draft_vocab_size"] = 320
        tensors["lm_head.weight"] = torch.zeros(320, HIDDEN)
        tensors["d2t"], tensors["t2d"] = torch.zeros(320, dtype=torch.long), torch.ones(320, dtype=torch.bool)

    head = run(padded, draft=str(eagle3(tmp_path / "h", edit))).head
    assert head is not None
    assert head.ids is None


@pytest.mark.parametrize("entry", ["eagle_config", "speculators_config"])
def test_a_config_of_another_make_is_one_sentence(model: Path, tmp_path: Path, entry: str) -> None:
    """Guards the search for heads: one odd folder in the hub cache must not keep others from being found."""

    def edit(config: dict[str, Any], _: dict[str, Tensor]) -> None:
        config.pop("eagle_config")
        config[entry] = ["not", "a", "table"]

    with pytest.raises(ModelError, match="damaged, or a head of a kind localchat does not know"):
        run(model, draft=str(eagle3(tmp_path / "h", edit)))


def test_a_head_that_reads_embeddings_is_refused(model: Path, tmp_path: Path) -> None:
    """Guards the first aux layer id: what goes into layer 0 is no layer's output, and must not become another state."""

    def edit(config: dict[str, Any], _: dict[str, Tensor]) -> None:
        config["eagle_aux_hidden_state_layer_ids"] = [0, 2, 4]

    with pytest.raises(ModelError, match="layer 0"):
        run(model, draft=str(eagle3(tmp_path / "h", edit)))


def test_a_head_of_nan_loads(model: Path, tmp_path: Path) -> None:
    """Guards the border: whether its output is a number is seen while drafting, which then goes on without."""

    def edit(_: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors["fc.weight"].fill_(torch.nan)

    assert run(model, draft=str(eagle3(tmp_path / "h", edit))).head is not None
