# The developer's commands. Each installs what it needs; a bare Python 3.11 is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test check docs tables coverage wheel clean
install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $@

demo: install  ## Train BFQ and BC on the embedded task; ends with a table and a picture.
	$(BIN)/bfq train

test: install  ## Every test.
	$(BIN)/python -m pytest -n 2 --dist loadfile

docs: install  ## The generated pages, then the site in build/site. Needs no network.
	$(BIN)/python -m tools.agent_pages docs/agents
	$(BIN)/python -m tools.command_page docs/command-line.md
	$(BIN)/python -m tools.data_checks_page docs/data-checks.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

tables: install  ## The tables of README.md and docs/, from the files in results/.
	$(BIN)/python -m bfq_paper.pages

check: install  ## Lint, format, types, import direction.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

coverage: install  ## Share of lines that the tests run.
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov=bfq --cov=bfq_paper --cov-report=term:skip-covered

wheel: install  ## The wheel, in dist/.
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
