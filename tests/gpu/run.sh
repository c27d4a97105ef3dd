#!/usr/bin/env bash
# Proves equality, exact mode, nf4, memory and speed on a CUDA device, with nothing but this repository and its
# dependencies. Takes a few minutes: tests/gpu/run.sh [FOLDER FOR RESULTS]
set -euo pipefail
cd "$(dirname "$0")/../.."
out="${1:-.}"
mkdir -p "$out"
export HF_HUB_OFFLINE=1 LOCALCHAT_HOME="$out/home" PYTHONPATH=.
python -c 'import torch; assert torch.cuda.is_available(), "no CUDA device"; print(torch.__version__, torch.cuda.get_device_name())'
python -m localchat doctor | tee "$out/doctor.txt" || true
python -m pytest -n 0 -q tests/gpu -m gpu 2>&1 | tee "$out/tests.txt"
for precision in bf16 nf4; do
  python -m localchat bench -m starter --precision "$precision" --device cuda -n 3 --json > "$out/bench-$precision.json"
  tail -n 1 "$out/bench-$precision.json"
done
