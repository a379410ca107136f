# Every target sets up what it needs: a clone needs GNU make and Python 3.11 or newer, and nothing else.
# One Python environment, .venv, is installed from the locks, and again only when a lock has changed.

PYTHON_IN_VENV := .venv/bin/python
# Dozens of processes of a local stack import the same modules: they are compiled once, whatever a shell's settings say.
unexport PYTHONDONTWRITEBYTECODE
# A function's own requirements.in, in its folder, is locked in the same folder, installed here and deployed with that function.
OWN_REQUIREMENTS := $(filter-out functions/requirements.in,$(wildcard */requirements.in */*/requirements.in */*/*/requirements.in))
LOCKS := requirements-dev.txt $(wildcard $(OWN_REQUIREMENTS:.in=.txt))
READY := .venv/matches-the-locks

# One worker a core, and the tests of a file in one worker: they share its stack or emulator.
IN_PARALLEL := --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
# From the command line only: a shell's own ENV or PROJECT must not choose what is deployed or destroyed, nor WSL's NAME
# what is run. Recipes read them as variables of the shell ("$$NAME"), which runs nothing that a value contains; only ARGS is
# a piece of a command.
NAME :=
ENV := dev
PROJECT :=
REGION :=
SEEDS := 10000
VERSION :=
ARGS :=
export NAME VERSION ENV PROJECT REGION SEEDS YES CONFIRM FORWARD UNCHECKED
# The folders of a user's own functions, as the catalogue names them: checked and tested with the rest.
OWN_FOLDERS = $(shell $(PYTHON_IN_VENV) -m signalbox_tools.setup.own_folders)
TEST_FOLDERS = $(if $(OWN_FOLDERS),-o testpaths="tests $(OWN_FOLDERS)")
# Types are checked where they are written: a function of your own need not have any.
TYPES_OF_OWN := --allow-untyped-defs --allow-untyped-calls --allow-incomplete-defs --allow-untyped-decorators --allow-any-generics --no-warn-return-any
SIGNALBOX := $(PYTHON_IN_VENV) -m signalbox_tools
TO_CLOUD = $(if $(PROJECT),,$(error Name the project: make $@ PROJECT=my-project))$(SIGNALBOX) $@ \
	--project="$$PROJECT" --environment="$$ENV" --region="$$REGION"
LOCK := $(PYTHON_IN_VENV) -m uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11

# Tools that are not part of the project's environment, each in a separate one.
TOOL := $(PYTHON_IN_VENV) -m uv tool run --quiet

PLATFORMS := darwin_amd64 darwin_arm64 linux_amd64 linux_arm64 windows_amd64

# Each program of examples/local is one that `make demo NAME=…` runs.
EXAMPLES := $(patsubst examples/local/%.py,%,$(wildcard examples/local/*.py))
BENCHES := documents standings semaphores rate_grants_plot objects flows batches watchers social_code cold_start idle_stack

# $(call named,KIND,TARGET,NAMES): the given NAME, if it is one of NAMES.
named = $(or $(filter $(3),$(NAME)),$(error Name the $(1): make $(2) NAME=… with one of: $(3)))

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "For everything else, the command signalbox: .venv/bin/signalbox --help"

setup: $(READY) ## Set up .venv and nothing else
	@:

demo: $(READY) ## Run the demo's six stages on real input (CITIES=all), or one example (NAME=quilt)
	@$(PYTHON_IN_VENV) -m $(if $(NAME),examples.local.$(call named,example,demo,$(EXAMPLES)),examples.demo)

dev: $(READY) ## Serve all functions on this machine until Ctrl-C (PORT=8080 EXAMPLES=1)
	@$(SIGNALBOX) dev

new: $(READY) ## Make a function, its test and its entry in the catalogue (NAME=printers)
	@$(SIGNALBOX) add "$$NAME"

test: $(READY) ## Run the tests but the slow ones (ARGS="-k word" goes to pytest)
	@$(PYTHON_IN_VENV) -m pytest $(IN_PARALLEL) $(TEST_FOLDERS) --ignore=tests/fuzz -p no:schemathesis -p tests.skips -m "not slow and not marathon" $(ARGS)

test-all: $(READY) ## Run the slow tests too (ARGS="-m marathon": those that take minutes each)
	@$(PYTHON_IN_VENV) -m pytest $(IN_PARALLEL) $(TEST_FOLDERS) -p tests.skips -m "not marathon" $(ARGS)

check: $(READY) ## Lint, check formatting and types, find machine paths and package hosts
	@status=0; \
	$(PYTHON_IN_VENV) -m ruff check || status=1; \
	$(PYTHON_IN_VENV) -m ruff format --check || status=1; \
	$(PYTHON_IN_VENV) -m mypy shared/signalbox shared/signalbox_tools examples tests $(wildcard functions/*/*.py) || status=1; \
	for own in $(OWN_FOLDERS); do \
		MYPYPATH=$$own $(PYTHON_IN_VENV) -m mypy $(TYPES_OF_OWN) $$own || status=1; \
	done; \
	$(PYTHON_IN_VENV) -m signalbox_tools.setup.tracked_files || status=1; \
	exit $$status

docs: $(READY) ## Write everything that is generated (CONTRIBUTING.md lists it)
	@$(PYTHON_IN_VENV) -m signalbox_tools.setup.blocking_client
	@$(SIGNALBOX) catalogue >/dev/null
	@$(PYTHON_IN_VENV) -m signalbox_tools.setup.generated_pages

site: $(READY) ## Build the site of the pages: dist/site (brings mkdocs-material)
	@$(PYTHON_IN_VENV) -m signalbox_tools.setup.site

simulate: $(READY) ## Search for a seed that breaks an invariant (SEEDS=100000, LONG=1, VERSIONS=1)
	@$(PYTHON_IN_VENV) -m tests.simulation --seeds "$$SEEDS" $(if $(LONG),--long) $(if $(VERSIONS),--versions)

bench: $(READY) ## Measure on both stores and write docs/benchmarks.md, or one bench (NAME=flows)
	@$(PYTHON_IN_VENV) -m tests.bench.$(if $(NAME),$(call named,bench,bench,$(BENCHES)),all_benches) $(ARGS)

lock: $(READY) ## Lock every requirements.in with hashes (ARGS=--upgrade: newest versions)
	@$(LOCK) $(ARGS) functions/requirements.in -o functions/requirements.txt
	@$(LOCK) $(ARGS) -c functions/requirements.txt requirements-dev.in -o requirements-dev.txt
	@$(SIGNALBOX) lock $(ARGS)

# It needs no .venv: pip brings the few megabytes that build a package.
wheel: ## Build the package: dist/signalbox-VERSION-py3-none-any.whl
	@[ -x .local/build/bin/pip ] || $(or $(PYTHON),python3) -m venv .local/build
	@.local/build/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls -t dist/signalbox-*.whl | head -1

providers: ## Write the checksums of Terraform's provider for all platforms (asks the registry)
	@for folder in infra infra/bootstrap; do terraform -chdir=$$folder providers lock $(PLATFORMS:%=-platform=%) || exit 1; done
	@echo "Commit infra/.terraform.lock.hcl and infra/bootstrap/.terraform.lock.hcl: Terraform then installs only this provider."

release: $(READY) ## Make a release up to its tag (VERSION=0.1.0; DRY=1: change nothing)
	@$(PYTHON_IN_VENV) -m signalbox_tools.setup.release "$$VERSION" $(if $(DRY),--dry) $(if $(ARGS),--tests="$(ARGS)")

audit: $(READY) ## Look for known vulnerabilities in the functions' packages (asks the index)
	@$(TOOL) pip-audit==2.10.1 --strict --disable-pip --require-hashes -r functions/requirements.txt

sbom: $(READY) ## Write dist/sbom.json: the functions' packages, in CycloneDX
	@mkdir -p dist
	@$(TOOL) --from cyclonedx-bom==7.5.0 cyclonedx-py requirements functions/requirements.txt --of JSON -o dist/sbom.json

bootstrap: $(READY) ## Prepare a Google Cloud project once (PROJECT=my-project)
	@$(TO_CLOUD)

deploy: $(READY) ## Deploy (PROJECT=my-project ENV=dev REGION=us-central1; YES=1)
	@$(TO_CLOUD)

destroy: $(READY) ## Destroy a deployment after its name is typed (PROJECT=my-project ENV=dev)
	@$(TO_CLOUD)

clean: ## Delete everything that make created, including .venv
	@rm -rf .venv .local dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(LOCKS) shared/signalbox_tools/setup/environment.sh
	@sh shared/signalbox_tools/setup/environment.sh $(LOCKS)
	@touch $@
