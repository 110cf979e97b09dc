# Five commands: up, test, check, format, bench. They need make and Python 3.11 or later with venv.
#
#   make up ARGS="--detach --api-port 9000"     options of `bough up`
#   make test ARGS="--long tests/engine"        options of pytest
#   make test ARGS=--cov                        with a coverage report
#   make up PYTHON=/opt/python3.12/bin/python3  the Python that creates .venv

PYTHON ?= python3
ARGS ?=

bin := .venv/bin
pip := $(bin)/python -m pip --disable-pip-version-check

.PHONY: up test check format bench

up: .venv/run.stamp
	@exec $(bin)/bough up $(ARGS)

# pytest chooses the number of workers by cores and memory (tests/support/tiers.py). Byte code of started programs is kept.
test: .venv/dev.stamp
	@PYTHONDONTWRITEBYTECODE= $(bin)/python -m pytest -n auto --dist worksteal $(ARGS)

check: .venv/dev.stamp
	@$(bin)/ruff format --check .
	@$(bin)/ruff check .
	@$(bin)/mypy
	@$(bin)/lint-imports
	@$(bin)/python -m bough.api.openapi --check
	@$(bin)/python -m bough.instant.openapi --check

format: .venv/dev.stamp
	@$(bin)/ruff format .
	@$(bin)/ruff check --fix .

bench: .venv/dev.stamp
	@$(bin)/python -m bench $(ARGS)

# The environment. A stamp is newer than the requirements it installed; without a working Python it is removed.
ifneq ($(shell $(bin)/python -c 'print("here")' 2>/dev/null),here)
$(shell rm -f .venv/run.stamp .venv/dev.stamp)
endif

# A recent pip installs in two thirds of the time. The lists are complete, so it need not look for dependencies.
.venv/run.stamp: requirements/pip.txt requirements/run.txt pyproject.toml
	@if ! $(bin)/python -c 'import pip' 2>/dev/null; then \
	  $(find_python); \
	  echo "Creating the Python environment in .venv." >&2; \
	  "$$python" -m venv --clear .venv; \
	fi
	@$(pip) install --quiet --require-hashes -r requirements/pip.txt >&2
	@$(pip) install --no-deps --require-hashes -r requirements/run.txt >&2
	@$(pip) install --quiet --no-deps --no-build-isolation -e . >&2
	@touch $@

.venv/dev.stamp: .venv/run.stamp requirements/dev.txt
	@$(pip) install --no-deps --require-hashes -r requirements/dev.txt >&2
	@touch $@

# Sets $python to the first suitable interpreter, or fails with a message that says what is missing.
define find_python
set -e; python=; bare=; \
for each in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
  command -v "$$each" >/dev/null 2>&1 || continue; \
  if ! "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then continue; fi; \
  bare="$$each"; \
  if "$$each" -c 'import ensurepip, venv' 2>/dev/null; then python="$$each"; break; fi; \
done; \
if [ -z "$$python" ] && [ -n "$$bare" ]; then \
  echo "bough: $$bare has no venv module; install it (Debian, Ubuntu: apt-get install python3-venv) and run make again." >&2; \
  exit 1; \
elif [ -z "$$python" ]; then \
  echo "bough: Python 3.11 or later was not found; install it, or pass its path: make up PYTHON=/path/to/python3." >&2; \
  exit 1; \
fi
endef
