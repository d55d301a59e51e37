"""BERT-base forward: lucid beside transformers on PyTorch, in one run.

    make bench          or    python -m benchmarks

The two take turns, in one process, with the same number of threads; each
figure is the median of seven. Peak memory is that of a process of its own.
The table is printed, and written with versions and machine to a JSON file.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

BATCH, TOKENS, REPEATS = 8, 128, 7
FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def lucid_forward(ids):
    """Return a function that runs lucid's BERT-base once, in eval mode."""
    import lucid
    from lucid.models.text.bert import bert_base

    model, batch = bert_base().eval(), lucid.tensor(ids)

    def run():
        with lucid.no_grad():
            return model(batch).last_hidden_state.numpy()

    return run


def torch_forward(ids):
    """Return a function that runs transformers' BERT-base once."""
    import torch
    from transformers import BertConfig, BertModel

    model, batch = BertModel(BertConfig()).eval(), torch.tensor(ids)

    def run():
        with torch.no_grad():
            return model(batch).last_hidden_state.numpy()

    return run


PEERS = {"lucid": lucid_forward, "torch": torch_forward}


def token_ids():
    """Return one batch of word pieces, without padding."""
    import numpy as np

    return np.random.default_rng(0).integers(0, 30522, (BATCH, TOKENS))


def peak_memory(peer):
    """Return the peak memory of one forward pass in its own process, MiB."""
    command = [sys.executable, "-m", "benchmarks", "--peak-of", peer]
    printed = subprocess.run(command, check=True, capture_output=True).stdout
    return json.loads(printed)


def print_own_peak(peer):
    """Run one forward pass and print the peak memory of this process."""
    PEERS[peer](token_ids())()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(peak / 1024 if sys.platform != "darwin" else peak / 2**20)
    )


def gemm_rate(gemm):
    """Return the rate of a (1024, 768) x (768, 3072) product, GFLOP/s."""
    seconds = []
    for _ in range(2 * REPEATS):
        start = time.perf_counter()
        gemm()
        seconds.append(time.perf_counter() - start)
    return 2 * 1024 * 768 * 3072 / statistics.median(seconds) / 1e9


def measure():
    """Time both peers in turns; return everything worth keeping."""
    # first, while this process is small: a child's peak begins at its parent's
    peaks = {name: peak_memory(name) for name in PEERS}
    import numpy as np
    import torch
    import transformers
    from threadpoolctl import threadpool_info

    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    ids = token_ids()
    runs = {name: build(ids) for name, build in PEERS.items()}
    seconds = {name: [] for name in runs}
    for run in runs.values():
        run()
    for i in range(REPEATS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
        print(f"\r  round {i + 1} of {REPEATS}", end="", file=sys.stderr)
    print(file=sys.stderr)
    a = np.ones((1024, 768), np.float32)
    b = np.ones((3072, 768), np.float32)
    ta, tb = torch.tensor(a), torch.tensor(b)
    return {
        "what": f"BERT-base forward, B={BATCH}, T={TOKENS}, float32, eval",
        "seconds": {n: statistics.median(s) for n, s in seconds.items()},
        "all_seconds": seconds,
        "peak_mib": peaks,
        "gemm_gflops": {
            "lucid": gemm_rate(lambda: a @ b.T),
            "torch": gemm_rate(lambda: torch.nn.functional.linear(ta, tb)),
        },
        "threads": threads,
        "threadpools": [
            {
                key: pool.get(key)
                for key in (
                    "internal_api",
                    "architecture",
                    "num_threads",
                    "version",
                )
            }
            for pool in threadpool_info()
        ],
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "machine": platform.processor() or platform.machine(),
    }


def report(result):
    """Print the table."""
    ours, theirs = (result["seconds"][name] for name in PEERS)
    print(f"{result['what']}, {result['threads']} threads")
    for pool in result["threadpools"]:
        print(f"  threadpool: {pool}")
    print(f"{'':8}{'median s':>10}{'peak MiB':>10}{'sgemm GFLOP/s':>15}")
    for name in PEERS:
        print(
            f"{name:8}{result['seconds'][name]:10.3f}"
            f"{result['peak_mib'][name]:10.0f}"
            f"{result['gemm_gflops'][name]:15.0f}"
        )
    print(f"lucid is {theirs / ours:.2f} times as fast as torch")


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--peak-of", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        print_own_peak(options.peak_of)
        return
    if any(name in os.environ for name in FORCED):
        # a kernel forced for safety is not the one to time
        free = {k: v for k, v in os.environ.items() if k not in FORCED}
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks", *sys.argv[1:]],
            free,
        )
    result = measure()
    report(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
