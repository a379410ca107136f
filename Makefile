# Every target sets up what it needs: a clone needs GNU make and Python 3.11 or newer, and nothing else.
# One Python environment, .venv, is made from the locks, and again only when a lock has changed.

PYTHON_IN_VENV := .venv/bin/python
LOCKS := requirements-dev.txt examples/gazetteer/requirements.txt
READY := .venv/matches-the-locks

SEEDS ?= 10000
COPIES ?= 20000
ARGS ?=
# From the command line only: a shell's own ENV or PROJECT must not choose what is deployed or destroyed.
ENV := dev
PROJECT :=
REGION :=
export YES CONFIRM
TO_CLOUD = $(PYTHON_IN_VENV) -m infra.deploy $@ --project=$(or $(PROJECT),$(error Say which project: make $@ PROJECT=my-project)) \
	--environment=$(ENV) --region=$(REGION)
LOCK := $(PYTHON_IN_VENV) -m uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11

.DEFAULT_GOAL := help
.PHONY: help demo dev test test-all simulate fuzz bench check docs package bootstrap plan deploy smoke destroy lock setup clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## Run the five stages of the demo on real input, on local stand-ins for the cloud (CITIES=all or a number)
	@$(PYTHON_IN_VENV) -m examples.demo

dev: $(READY) ## Serve all functions on this machine until Ctrl-C (PORT=8080)
	@$(PYTHON_IN_VENV) -m infra.local

test: $(READY) ## Run the tests, without the slow ones (ARGS="-k word" goes to pytest)
	@$(PYTHON_IN_VENV) -m pytest -p tests.no_skips -m "not slow" $(ARGS)

test-all: $(READY) ## Run all tests
	@$(PYTHON_IN_VENV) -m pytest -p tests.no_skips $(ARGS)

fuzz: $(READY) ## Send the functions hundreds of requests of each kind that openapi.yaml describes, right and wrong ones
	@$(PYTHON_IN_VENV) -m pytest -p tests.no_skips tests/fuzz $(ARGS)

simulate: $(READY) ## Look for a seed that breaks a promise (SEEDS=100000)
	@$(PYTHON_IN_VENV) -m tests.simulation --seeds $(SEEDS)

bench: $(READY) ## Measure documents and links on the emulator, also against bare client calls (COPIES=20000)
	@$(PYTHON_IN_VENV) -m tests.bench --copies $(COPIES)

check: $(READY) ## Lint, check the format and the types, and look for what must not be in the repository
	@status=0; \
	$(PYTHON_IN_VENV) -m ruff check || status=1; \
	$(PYTHON_IN_VENV) -m ruff format --check || status=1; \
	$(PYTHON_IN_VENV) -m mypy shared infra examples tests $(wildcard functions/*/*.py) || status=1; \
	$(PYTHON_IN_VENV) -m infra.setup.tracked_files || status=1; \
	exit $$status

docs: $(READY) ## Write the tables in docs/ that are made from openapi.yaml and from the code
	@$(PYTHON_IN_VENV) -m infra.setup.generated_pages

package: $(READY) ## Build dist/NAME.zip of each function, the same bytes everywhere
	@$(PYTHON_IN_VENV) -m infra.packaging

bootstrap: $(READY) ## Prepare a Google Cloud project, once: a bucket for Terraform's state, an account that deploys (PROJECT=my-project)
	@$(TO_CLOUD)

plan: $(READY) ## Say what a deployment would change, and change nothing (PROJECT=my-project ENV=dev REGION=us-central1)
	@$(TO_CLOUD)

deploy: $(READY) ## Check, package, plan, ask, apply, and test what answers (as plan; YES=1 agrees, PLANNED=1 applies what plan kept)
	@$(TO_CLOUD) $(if $(PLANNED),--planned)

smoke: $(READY) ## Test what is deployed, through its own URLs (PROJECT=my-project ENV=dev)
	@$(TO_CLOUD)

destroy: $(READY) ## Remove a deployment, after its name was typed (PROJECT=my-project ENV=dev)
	@$(TO_CLOUD)

lock: $(READY) ## Renew the locks after a change of a requirements .in file (ARGS=--upgrade: newest versions)
	@$(LOCK) $(ARGS) functions/requirements.in -o functions/requirements.txt
	@$(LOCK) $(ARGS) -c functions/requirements.txt requirements-dev.in -o requirements-dev.txt
	@$(LOCK) $(ARGS) -c functions/requirements.txt examples/gazetteer/requirements.in -o examples/gazetteer/requirements.txt

setup: $(READY) ## Only set up .venv
	@:

clean: ## Remove everything that make has made, .venv too
	@rm -rf .venv .local dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(LOCKS) infra/setup/environment.sh
	@sh infra/setup/environment.sh $(LOCKS)
	@touch $@
