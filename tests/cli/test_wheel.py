"""What is shipped."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_BYTES = 30 * 2**20


def test_the_wheel_holds_the_themes_and_the_built_in_models(tmp_path: Path) -> None:
    """Guards against a package that works only from its source tree: data files are what builds forget."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    wanted = {f"localchat/_themes/{theme.name}" for theme in (ROOT / "themes").glob("*.toml")}
    wanted |= {"localchat/models/catalog.toml", "localchat/bench/prompts.toml"}
    for side in ("target", "draft"):
        names = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
        wanted |= {f"localchat/models/starter/{side}/{name}" for name in names}
    for head in ("eagle", "medusa"):
        wanted |= {f"localchat/models/starter/heads/{head}/{name}" for name in ("model.safetensors", "config.json")}
    assert len(wanted) >= 18
    assert wanted <= set(sizes)
    assert sum(size for name, size in sizes.items() if name.endswith(".safetensors")) <= MOST_BYTES
    assert not [name for name in sizes if name.startswith("tests/")]
