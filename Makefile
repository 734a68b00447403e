# The two commands of the README are `make demo` and `make test`. Each first creates a virtual
# environment from the lock. PYTHON selects the interpreter, 3.11 to 3.13, and VENV the folder of the
# environment, so that two interpreters do not share one.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# Keep compiled modules: the first test process writes them for the others, and for each `jobflow`.
unexport PYTHONDONTWRITEBYTECODE
# Tests wait for a third of their time, so three processes fit on two cores.
PYTEST := $(BIN)/pytest -n 3 --dist loadfile

.PHONY: demo test coverage test-long explore test-cluster test-chaos lint crds manifests pictures bench bench-cluster bench-peers dist lock sbom clean
.DEFAULT_GOAL := test

# A lock names every package, so pip resolves none: some versions of it take the newest release of an
# extra (coverage[toml]) instead of the locked one, and then refuse it because it has no hash.
$(VENV)/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: $(VENV)/installed ## run three example flows, without a cluster
	$(BIN)/jobflow run examples/diamond.yaml examples/entries-and-exits.yaml examples/patch.yaml

test: $(VENV)/installed lint ## lint, and the tests that need only Python: about three minutes
	$(PYTEST) $(PYTEST_ARGS)

coverage: $(VENV)/installed ## the same tests, and at least 95 % of core and webhook covered
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=95 \
		$(PYTEST_ARGS)

LAWS ?= long
test-long: $(VENV)/installed ## property-based tests with two hundred times the examples, all slow tests, and those in a browser
	JOBFLOW_LAWS=$(LAWS) $(BIN)/pytest -n 3 -m '(hypothesis or law or long or sampled or browser or kubectl) and not cluster' --timeout 900 $(PYTEST_ARGS)

explore: $(VENV)/installed ## every state of small flows, with a process per core: an hour or more
	PYTHONPATH=tests $(BIN)/python -m model.explorer $(EXPLORE_ARGS)

test-cluster: $(VENV)/installed ## the tests that need a real kube-apiserver, which Go builds the first time
	$(BIN)/python tests/support/cluster/control_plane_binaries.py $(BIN)/pytest -n 2 --dist loadfile -m cluster $(PYTEST_ARGS)

test-chaos: $(VENV)/installed ## ten minutes of chaos on a real kube-apiserver; CHAOS_ARGS='--seed 7 --minutes 1' replays a minute
	PYTHONPATH=tests:. $(BIN)/python tests/support/cluster/control_plane_binaries.py $(BIN)/python -m chaos $(CHAOS_ARGS)

lint: $(VENV)/installed
	$(BIN)/ruff check src tests bench charts tools examples
	$(BIN)/ruff format --check src tests bench charts tools examples
	$(BIN)/mypy
	$(BIN)/mypy examples/python
	$(BIN)/lint-imports
	$(BIN)/python tools/size.py

crds: $(VENV)/installed ## write charts/jobflow/crds from the types in jobflow.api
	$(BIN)/python -m jobflow.api.crd charts/jobflow/crds

manifests: crds ## write deploy/, the table of pod types and those of jobflow.authoring; IMAGE=REPOSITORY@sha256:DIGEST sets the image
	$(BIN)/python tools/pod_types.py src/jobflow/api/pod_types.txt
	$(BIN)/python tools/authoring_types.py src/jobflow/authoring/objects
	$(BIN)/python charts/manifests.py deploy $(IMAGE)

pictures: $(VENV)/installed ## draw docs/pictures: terminals and pages of real runs; needs chromium
	$(BIN)/python tools/terminal_pictures.py docs/pictures
	$(BIN)/python tools/page_pictures.py docs/pictures

bench: $(VENV)/installed ## print the figures of docs/performance.md that need only this machine
	$(BIN)/python -m bench

bench-cluster: $(VENV)/installed ## compare with peers on a real kube-apiserver, and print the figures with very many objects
	$(BIN)/python tests/support/cluster/control_plane_binaries.py $(BIN)/python -m bench cluster $(BENCH_ARGS)
	$(BIN)/python -m bench copies

bench-peers: $(VENV)/installed ## build controllers to compare with by Go, and print the variables that bench-cluster reads; VOLCANO_SOURCE=DIR is a checkout of Volcano
	@VOLCANO_SOURCE="$(VOLCANO_SOURCE)" $(BIN)/python -m bench.build_peers

DIST ?= dist
dist: $(VENV)/installed ## build the wheel and the sdist of volcano-jobflow, without network
	$(BIN)/hatchling build --directory $(DIST)

LOCK := uv pip compile --generate-hashes --no-emit-index-url --python-version 3.11 --universal \
	--no-annotate --no-header -q $(LOCK_ARGS)

lock: ## write the locks, with hashes and without addresses (needs uv); LOCK_ARGS=--upgrade updates them
	$(LOCK) pyproject.toml --group dev -o requirements.lock
	$(LOCK) pyproject.toml -c requirements.lock -o requirements-runtime.lock
	$(LOCK) --group build -c requirements.lock -o requirements-build.lock
	$(LOCK) --group sbom -o requirements-sbom.lock

$(VENV)/sbom/installed: requirements-sbom.lock
	$(PYTHON) -m venv $(VENV)/sbom
	$(VENV)/sbom/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-sbom.lock
	touch $@

SBOM ?= sbom.cdx.json
sbom: $(VENV)/installed $(VENV)/sbom/installed ## write the packages of the image as CycloneDX, from the lock
	$(VENV)/sbom/bin/cyclonedx-py requirements requirements-runtime.lock --pyproject pyproject.toml \
		--output-reproducible --output-file $(SBOM)

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
