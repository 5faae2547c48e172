# Two commands from a fresh machine: `make audit` runs the main job, `make test` passes the tests.
# --no-compile: Python compiles what it imports, which is a small part of what is installed. It must keep what it compiled, also
# where the environment forbids that: else every process compiles torch again, for 3 to 8 CPU seconds.
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

audit: $(VENV)/ready
	$(BIN)/audit run || test $$? = 3  # 3: a claim was tested too weakly to say, and the report says which

install: $(VENV)/ready

test: $(VENV)/ready
	$(BIN)/pytest -n auto --maxprocesses 8 --dist loadfile

# The tests of Ray clusters run only with Ray; -rs says why a test was skipped. The last line repeats tests of `make test` with all
# that an audit tries.
nightly: export GNNAUDIT_TESTS := thorough
nightly: $(VENV)/ready
	$(BIN)/pip install -q --disable-pip-version-check --no-compile -c requirements.lock -e '.[dev,ray]'
	$(BIN)/pytest -m nightly -rs
	$(BIN)/pytest -m hypothesis --hypothesis-profile explore
	$(BIN)/pytest tests/audit

check: $(VENV)/ready .types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p gnnaudit

# gnnaudit.pth lists .types, so that Python finds the package there before a folder without __init__.py that has its name: a
# checkout named gnnaudit is such a folder for every script beside it, and pip's own link comes after it.
$(VENV)/ready: pyproject.toml requirements.lock | .types
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --no-compile -c requirements.lock -e '.[dev]'
	echo "$(CURDIR)/.types" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gnnaudit.pth"
	touch $@

# A wheel, installed into an environment that has nothing else, and run there from another folder.
wheel:
	rm -rf dist .wheel build
	$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
	rm -rf build *.egg-info
	$(PYTHON) -m venv .wheel
	.wheel/bin/pip install -q --disable-pip-version-check --no-compile -c requirements.lock dist/gnnaudit-*.whl
	cd .wheel && bin/audit --version && bin/audit run --quiet --models mlp --data campus:n=300 --epsilon 1 --attacks none \
	  --audits replay --repeats 1 --mlflow none --out run && test -s run/card.md
	rm -rf .wheel

# The root folders are one import package; here they stand in one folder, for Python and for a type checker.
.types:
	mkdir -p .types
	mkdir -p .types/gnnaudit
	ln -sfn ../../gnnaudit/__init__.py .types/gnnaudit/__init__.py
	ln -sfn ../../gnnaudit/py.typed .types/gnnaudit/py.typed
	ln -sfn ../../gnnaudit/__main__.py .types/gnnaudit/__main__.py
	ln -sfn ../../gnnaudit/target.py .types/gnnaudit/target.py
	ln -sfn ../../gnnaudit/recipes .types/gnnaudit/recipes
	for p in accounting models attacks reports audit; do ln -sfn ../../$$p .types/gnnaudit/$$p; done

.PHONY: audit install test nightly check wheel
