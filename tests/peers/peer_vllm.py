"""vLLM with n-gram speculation: `vllm serve` in an environment of its own (--python), asked over HTTP.

vLLM keeps one core for its server by default and would run the model on one thread of two; here it gets them all, which
is faster. A reply's pieces are its streamed chunks, one a round.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .measure import Clock, Sample
from .standalone import arguments, measure_alone

_START_SECONDS = 600.0


class Vllm:
    """A server that lives as long as this object."""

    def __init__(self, folder: str, python: str, threads: int, drafted: int = 8, log: str = os.devnull) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        speculation = {"method": "ngram", "num_speculative_tokens": drafted, "prompt_lookup_max": 4}
        command = [
            *(python, str(Path(python).with_name("vllm")), "serve", folder, "--served-model-name", "target"),
            *("--max-model-len", "2048", "--dtype", "bfloat16", "--enforce-eager", "--max-num-seqs", "2"),
            *("--host", "127.0.0.1", "--port", str(self._port), "--speculative-config", json.dumps(speculation)),
        ]
        environment = os.environ | {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "HF_HUB_OFFLINE": "1",
            "PATH": f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        with open(log, "ab") as sink:
            self._server = subprocess.Popen(
                command, env=environment, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._name = f"vllm ngram {drafted}"
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def variants(self) -> tuple[str, ...]:
        """Speculation is chosen when the server starts, so there is one."""
        return (self._name,)

    def run(self, variant: str, prompt: str, ids: Sequence[int], count: int) -> list[Sample]:
        """One greedy reply, end of text ignored."""
        request = {
            "model": "target",
            "prompt": list(ids),
            "max_tokens": count,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        text = ""
        clock = Clock()
        connection.request("POST", "/v1/completions", json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"vLLM answered {response.status}: {response.read().decode()[:300]}")
        for line in response:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    clock.take(len(choice.get("token_ids") or ()))
                    text += choice["text"]
        connection.close()
        return [clock.sample(variant, prompt, text)]

    def close(self) -> None:
        """Stop the server and the processes it started."""
        if self._server.poll() is None:
            os.killpg(self._server.pid, signal.SIGTERM)
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()

    def _wait(self) -> None:
        """Return once the server answers.

        Raises:
            RuntimeError: it ended, or did not come up in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._server.poll() is not None:
                raise RuntimeError(f"vLLM ended with {self._server.returncode}; see its log (--vllm-log)")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.5)
            finally:
                connection.close()
        raise RuntimeError(f"vLLM did not start within {_START_SECONDS:.0f} s; see its log (--vllm-log)")


def main() -> None:
    """Measure it alone."""
    parser = arguments(argparse.ArgumentParser(description=__doc__))
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment that has vLLM")
    parser.add_argument("--drafted", type=int, default=8, help="tokens drafted by n-gram a round")
    parser.add_argument("--vllm-log", default=os.devnull)
    options = parser.parse_args()
    measure_alone(Vllm(options.model, options.python, options.threads, options.drafted, options.vllm_log), options)


if __name__ == "__main__":
    main()
