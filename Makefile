# The developer's verbs. Each sets up what it needs: a bare Python 3.11 is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test check docs tables clean
install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install  ## Train BFQ and BC on the embedded task; ends with a table and a picture.
	$(BIN)/bfq train

test: install  ## Every test.
	$(BIN)/python -m pytest -n 2 --dist loadfile

docs: install  ## The pages about the agents, from their own files.
	$(BIN)/bfq agents --pages docs/agents

tables: install  ## The README's tables, from the files in results/.
	$(BIN)/python -m bfq_paper.readme README.md

check: install  ## Lint, format, types, import direction.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
