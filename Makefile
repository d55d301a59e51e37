# make book   build the book and open it        make test   prove all of it
# make lab    run the chapters in Jupyter       make bench  time it beside its peers
# make tangle write lucid/ from the chapters    make clean  remove what was built
# make gpu-check   on a CUDA machine with CuPy: compare with NumPy, and time it
#
# Needs Python 3.11 or newer, make and the package index, nothing else.
# Another interpreter: make book PYTHON=/path/to/python3.12

.DEFAULT_GOAL := help
.PHONY: help book test lab bench tangle gpu-check clean distclean

# The newest Python on the path that is new enough (and really starts).
ifndef PYTHON
PYTHON := $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
  then echo $$p; exit; fi; done; echo python3)
endif

VENV := .venv/bin
SETUP = @command -v $(PYTHON) >/dev/null 2>&1 || { \
  echo "No '$(PYTHON)' on the path. Install Python 3.11 or newer (https://www.python.org/downloads/),"; \
  echo "or name one: make $@ PYTHON=/path/to/python3.12"; exit 1; }; $(PYTHON) tools/setup_env.py

help:
	@sed -n '1,7s/^# \{0,1\}//p' Makefile

book:
	$(SETUP) book
	@$(VENV)/python tools/check.py tangle book
	@$(VENV)/python tools/open_page.py

test:
	$(SETUP) test
	@$(VENV)/python tools/check.py

lab:
	$(SETUP) lab
	@$(VENV)/jupyter trust chapters/*.ipynb >/dev/null || true  # else stored figures stay hidden
	@$(VENV)/jupyter lab chapters

bench:
	$(SETUP) bench
	@$(VENV)/python -m benchmarks --json _build/bench.json

tangle:
	$(SETUP) book
	@$(VENV)/python tools/tangle.py

gpu-check:
	@$(PYTHON) tools/gpu_check.py  # no .venv: what the machine has must do

clean:
	rm -rf _build .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv
