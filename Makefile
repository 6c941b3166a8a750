# Every target sets up what it needs in .venv; nothing has to be installed by hand but Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= countermax-demo
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-explorer test-site test-ray test-engines lint bench fuzz results results-pages figures examples docs docs-serve tutorials dist clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed          ## a bundled clinical trial, its pictures and report.html
	$(BIN)/countermax demo --overwrite --out $(OUT)

test: $(VENV)/.developing         ## the test suite
	$(BIN)/python -m pytest -n auto --dist=worksteal

test-slow: $(VENV)/.developing    ## everything, long statistical runs too, with XLA's optimisations and fresh random examples
	COUNTERMAX_TESTS=slow $(BIN)/python -m pytest -n auto --dist=worksteal -m 'slow or not slow' --jaxtyping-packages=countermax,studies,beartype.beartype

test-explorer: $(VENV)/.exploring ## the explorer in a real browser, and its JavaScript against Python
	$(BIN)/python -m pytest -n 2 --dist=loadfile tests/explorer

test-site: docs $(VENV)/.exploring ## the Python in guides and tutorials; the documentation in a real browser: nothing cut, missing, hidden or hard to read
	$(BIN)/python -m pytest -n auto -m documents tests/test_package.py tests/docs
	$(BIN)/python -m pytest -n0 tests/site

test-ray: $(VENV)/.distributing   ## tables and cohorts on Ray, on this machine
	$(BIN)/python -m pytest -n0 tests/ray

test-engines: $(VENV)/.engines    ## other engines, by the recipes of the guide, and an S3 server on this machine
	$(BIN)/python -m pytest -n0 tests/engines

lint: $(VENV)/.developing         ## formatting, style, types, and which module may import which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.developing        ## measures the speed claims; writes benchmarks/results
	$(BIN)/python -m benchmarks

fuzz: $(VENV)/.developing         ## random calls, damaged files and kills for a minute; more: .venv/bin/python -m fuzz --help
	$(BIN)/python -m fuzz

results: $(VENV)/.developing      ## trains and measures what results/ lacks (hours on a CPU; each cell is kept)
	$(BIN)/python -m studies all --preset published --out results/paper/published
	$(BIN)/python -m studies all --preset best --out results/paper/best
	$(BIN)/python -m studies sepsis --preset best --seeds 5 --out results/sepsis
	$(BIN)/python -m studies sepsis --seeds 5 --as-published --out results/sepsis
	$(BIN)/python -m studies trajectories --preset best --out results/trajectories
	$(BIN)/python -m studies coverage --preset best --out results/coverage
	$(BIN)/python -m studies policies --preset best --out results/policies
	$(BIN)/python -m studies causation --preset best --out results/causation
	$(BIN)/python -m studies robustness --preset best --out results/robustness
	$(BIN)/python -m studies optimism --preset best --out results/optimism
	$(BIN)/python -m studies quantiles --preset best --out results/quantiles
	$(BIN)/python -m studies quantiles-learned --preset best --out results/quantiles

results-pages: $(VENV)/.installed ## sheets, figures and an index.html from the cells in results/; computes nothing
	for each in paper/published paper/best sepsis trajectories coverage policies causation robustness optimism quantiles; do $(BIN)/python -m studies plot results/$$each || exit 1; done

figures: $(VENV)/.developing      ## redraws the pictures of README and guides; the explorer's needs a browser (make test-explorer)
	$(BIN)/countermax demo --overwrite --out $(VENV)/figures
	cp $(VENV)/figures/answers.png $(VENV)/figures/couplings.png docs/images/
	PYTHONPATH=. $(BIN)/python docs/_site/figures.py docs/images
	$(BIN)/python docs/_site/switching.py docs/images/switching_nested.png

examples: $(VENV)/.developing     ## runs the examples; their pictures go to docs/images
	for each in examples/*.py; do PYTHONPATH=. $(BIN)/python $$each docs/images || exit 1; done

docs: $(VENV)/.documenting        ## the documentation, into site/; stops at a broken link, a missing anchor or a public name without an entry
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

docs-serve: $(VENV)/.documenting  ## the same on http://127.0.0.1:8000, built again while you write
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

tutorials: $(VENV)/.documenting   ## runs docs/tutorials/*.py and stores them with their outputs as notebooks
	$(BIN)/python docs/_site/notebooks.py

dist: $(VENV)/.releasing          ## wheel and sdist, into dist/, checked and looked into (docs/releasing.md)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python .ci/look_into_dist.py dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "countermax needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable .
	@touch $@

$(VENV)/.developing: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

# Without a browser there is nothing to drive, and nothing to install for it; the tests say so.
$(VENV)/.exploring: $(VENV)/.developing
	@if $(BIN)/python tests/browsers.py; then $(PIP) --editable '.[explorer-tests]' && touch $@; fi
	@if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core; fi

$(VENV)/.distributing: $(VENV)/.developing
	$(PIP) --editable '.[ray]'
	@touch $@

$(VENV)/.engines: $(VENV)/.developing
	$(PIP) --editable '.[engine-tests]'
	@touch $@

$(VENV)/.documenting: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.releasing: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable '.[release]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) $(OUT) dist build site
