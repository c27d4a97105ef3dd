"""Tiny random models and a byte-level tokenizer, as ordinary transformers folders; sizes suit the 4-bit kernels."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIALS = ("<|pad|>", "<|bos|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
END = "<|end|>"

TEMPLATE = (
    "<|bos|>{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
STRICT_TEMPLATE = (
    "<|bos|>{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "<|{{ message['role'] }}|>{{ message['content'] | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

VOCABULARY = 256 + len(SPECIALS)

_CONFIGS = {
    "llama": "LlamaConfig",
    "mistral": "MistralConfig",
    "qwen2": "Qwen2Config",
    "qwen3": "Qwen3Config",
    "gemma2": "Gemma2Config",
    "gemma3_text": "Gemma3TextConfig",
    "phi3": "Phi3Config",
    "mixtral": "MixtralConfig",
}


def tiny_tokenizer(*, specials: Sequence[str] = SPECIALS, template: str | None = TEMPLATE) -> Any:
    """One token for every byte, then the special tokens in the order given."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: token for token, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(specials))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=specials[1],
        eos_token=specials[-1],
        pad_token=specials[0],
        additional_special_tokens=list(specials[2:-1]),
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def tiny_model(
    kind: str = "llama",
    *,
    seed: int = 0,
    layers: int = 2,
    hidden: int = 64,
    vocab: int = VOCABULARY,
    max_context: int = 2048,
    tied: bool = True,
    **fields: Any,
) -> Any:
    """A random fp32 model in eval mode; `fields` are further fields of its config."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = getattr(transformers, _CONFIGS[kind])(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=max_context,
        tie_word_embeddings=tied,
        bos_token_id=257,
        eos_token_id=vocab_id(END),
        pad_token_id=256,
        **fields,
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)


def vocab_id(special: str) -> int:
    """The id of a special token of `tiny_tokenizer`."""
    return 256 + SPECIALS.index(special)


def save_tiny(
    folder: Path, kind: str = "llama", *, tokenizer: Any = None, dtype: str = "bfloat16", **fields: Any
) -> Path:
    """Write a tiny model and its tokenizer; `fields` go to `tiny_model`. Returns the folder."""
    import torch

    model = tiny_model(kind, **fields).to(getattr(torch, dtype))
    model.config.dtype = getattr(torch, dtype)
    model.save_pretrained(folder)
    (tokenizer or tiny_tokenizer()).save_pretrained(folder)
    return folder


def edit_config(folder: Path, **fields: Any) -> None:
    """Overwrite fields of a folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def bare_folder(folder: Path, config: dict[str, Any], tensors: Mapping[str, tuple[int, ...]] | None = None) -> Path:
    """A folder with a config, a safetensors file of zeros and an empty tokenizer: enough for every check."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    write_safetensors(folder / "model.safetensors", tensors or {"model.norm.weight": (4,)})
    return folder


def write_safetensors(path: Path, tensors: Mapping[str, tuple[int, ...]]) -> None:
    """A bf16 safetensors file of zeros."""
    header: dict[str, Any] = {}
    at = 0
    for name, shape in tensors.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def write_gguf(path: Path, *, layers: int = 1, hidden: int = 64) -> Path:
    """A random Llama as an F16 GGUF file with a byte-level vocabulary."""
    import gguf
    import numpy as np

    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(2 * hidden)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(hidden // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY + 1)
    texts = [*sorted(tiny_tokenizer().get_vocab(), key=tiny_tokenizer().get_vocab().__getitem__), "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(texts)
    writer.add_token_types([3 if text in SPECIALS else 1 for text in texts])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(vocab_id(END))
    shapes = {"token_embd": (VOCABULARY + 1, hidden), "output_norm": (hidden,), "output": (VOCABULARY + 1, hidden)}
    for layer in range(layers):
        block = {
            "attn_norm": (hidden,),
            "ffn_norm": (hidden,),
            "attn_q": (hidden, hidden),
            "attn_k": (hidden // 2, hidden),
            "attn_v": (hidden // 2, hidden),
            "attn_output": (hidden, hidden),
            "ffn_gate": (2 * hidden, hidden),
            "ffn_up": (2 * hidden, hidden),
            "ffn_down": (hidden, 2 * hidden),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    for name, shape in shapes.items():
        values = random.normal(0, 0.02, shape)
        writer.add_tensor(f"{name}.weight", values.astype(np.float32 if len(shape) == 1 else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
