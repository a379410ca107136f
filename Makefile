# Every target sets up what it needs: a clone needs GNU make and Python 3.11 or newer, and nothing else.
# One Python environment, .venv, is installed from the locks, and again only when a lock has changed.

PYTHON_IN_VENV := .venv/bin/python
# Dozens of processes of a local stack import the same modules: they are compiled once, whatever a shell's settings say.
unexport PYTHONDONTWRITEBYTECODE
# A function's own requirements.in, in its folder, is locked in the same folder, installed here and deployed with that function.
OWN_REQUIREMENTS := $(filter-out functions/requirements.in,$(wildcard */requirements.in */*/requirements.in */*/*/requirements.in))
LOCKS := requirements-dev.txt $(wildcard $(OWN_REQUIREMENTS:.in=.txt))
READY := .venv/matches-the-locks

SEEDS ?= 10000
COPIES ?= 20000
DEPLOYMENTS ?= 100
ARGS ?=
# One worker a core, and the tests of a file in one worker: they share its stack or emulator.
IN_PARALLEL := --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
# From the command line only: a shell's own ENV or PROJECT must not choose what is deployed or destroyed.
ENV := dev
PROJECT :=
REGION :=
export YES CONFIRM
# The folders of a user's own functions, as the catalogue names them: checked and tested with the rest.
OWN_FOLDERS = $(shell $(PYTHON_IN_VENV) -m signalbox_tools.setup.own_folders)
TEST_FOLDERS = $(if $(OWN_FOLDERS),-o testpaths="tests $(OWN_FOLDERS)")
# Types are checked where they are written: a function of your own need not have any.
TYPES_OF_OWN := --allow-untyped-defs --allow-untyped-calls --allow-incomplete-defs --allow-untyped-decorators --allow-any-generics --no-warn-return-any
SIGNALBOX := $(PYTHON_IN_VENV) -m signalbox_tools
TO_CLOUD = $(SIGNALBOX) $@ --project=$(or $(PROJECT),$(error Name the project: make $@ PROJECT=my-project)) \
	--environment=$(ENV) --region=$(REGION)
OF_WHICH = $(if $(PROJECT),--project=$(PROJECT) --environment=$(ENV) --region=$(REGION))
LOCK := $(PYTHON_IN_VENV) -m uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11

# Tools that are no part of the project's environment, each in one of its own.
TOOL := $(PYTHON_IN_VENV) -m uv tool run --quiet

# Each program of examples/local is one that `make example NAME=…` runs.
EXAMPLES := $(patsubst examples/local/%.py,%,$(wildcard examples/local/*.py))

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## Run the six stages of the demo on real input, on the local emulators (CITIES=all or a number)
	@$(PYTHON_IN_VENV) -m examples.demo

example: $(READY) ## Run an example on a local stack (NAME=quilt, todos, atlas, social_code, standings with INPUT=cities or ratings, or philosophers with MODE=naive or ordered, SEATS=5 ROUNDS=5)
	@$(PYTHON_IN_VENV) -m examples.local.$(or $(filter $(EXAMPLES),$(NAME)),$(error Name the example: make example NAME=… with one of: $(EXAMPLES)))

dev: $(READY) ## Serve all functions on this machine until Ctrl-C (PORT=8080)
	@$(SIGNALBOX) dev

new: $(READY) ## Make a folder with a function, its test and its entry in the catalogue (NAME=printers)
	@$(SIGNALBOX) add "$(NAME)"

status: $(READY) ## Show what runs, queues, outbox, objects, the last sweep, stuck flows and recent errors (PROJECT=my-project: in the cloud)
	@$(SIGNALBOX) status $(OF_WHICH)

flow: $(READY) ## Draw a run of a flow: its log and its pending commands (ID=checkout/order-7; PROJECT=my-project: in the cloud)
	@$(SIGNALBOX) flow "$(or $(ID),$(error Name the run: make flow ID=checkout/order-7))" $(OF_WHICH)

failures: $(READY) ## List tasks, calls and events that were given up (REPLAY=1 delivers the events again; PROJECT=my-project: in the cloud)
	@$(SIGNALBOX) failures $(OF_WHICH) $(if $(REPLAY),--replay)

console: $(READY) ## Serve pages that show a deployment on this machine, read-only without ACT=1 (PROJECT=my-project; make dev serves its own)
	@$(SIGNALBOX) console $(OF_WHICH) $(if $(ACT),--act)

logs: $(READY) ## Show the last log lines (LINES=100, FOLLOW=1 goes on, LOG=json; PROJECT=my-project: in the cloud)
	@$(SIGNALBOX) logs $(OF_WHICH) $(if $(LINES),--lines=$(LINES)) $(if $(FOLLOW),--follow) \
		$(if $(filter json,$(LOG)),--json)

test: $(READY) ## Run the tests, also of your own folders, without the slow ones (ARGS="-k word" goes to pytest)
	@$(PYTHON_IN_VENV) -m pytest $(IN_PARALLEL) $(TEST_FOLDERS) --ignore=tests/fuzz -p tests.skips -m "not slow and not marathon" $(ARGS)

test-all: $(READY) ## Run the slow tests too: stacks that are killed, pages in a browser, Terraform, more seeds
	@$(PYTHON_IN_VENV) -m pytest $(IN_PARALLEL) $(TEST_FOLDERS) -p tests.skips -m "not marathon" $(ARGS)

test-marathon: $(READY) ## Run the tests that take minutes each
	@$(PYTHON_IN_VENV) -m pytest $(IN_PARALLEL) -p tests.skips -m marathon $(ARGS)

fuzz: $(READY) ## Send hundreds of valid and invalid requests of each operation in openapi.yaml
	@$(PYTHON_IN_VENV) -m pytest -p tests.skips tests/fuzz $(ARGS)

simulate: $(READY) ## Search for a seed that breaks an invariant (SEEDS=100000, LONG=1 for longer worlds, VERSIONS=1 for two releases)
	@$(PYTHON_IN_VENV) -m tests.simulation --seeds $(SEEDS) $(if $(LONG),--long) $(if $(VERSIONS),--versions)

batch-sizes: $(READY) ## Run batches of up to a million units in one process, and count what a unit writes (ARGS="--sizes 100000")
	@$(PYTHON_IN_VENV) -m tests.batch_sizes $(ARGS)

rehearse: $(READY) ## Deploy for the first time into DEPLOYMENTS=100 stand-ins for a project, each with other delays of Google's (ARGS=--keep)
	@$(PYTHON_IN_VENV) -m tests.infra.deploy.first_deployments --seeds $(DEPLOYMENTS) $(ARGS)

bench: $(READY) ## Measure documents and links on the emulator, compared with plain client calls (COPIES=20000)
	@$(PYTHON_IN_VENV) -m tests.bench --copies $(COPIES)

bench-standings: $(READY) ## Measure yokes a second on one item and on many, beside plain counters (ARGS="--yokes 1000")
	@$(PYTHON_IN_VENV) -m tests.bench.standings $(ARGS)

bench-semaphores: $(READY) ## Measure 64 clients at 3 permits, beside bare calls, Redis and ZooKeeper (ARGS="--pairs 500")
	@$(PYTHON_IN_VENV) -m tests.bench.semaphores $(ARGS)

bench-grants: $(READY) ## Plot a minute of a rate's grants, and of two tenants' under a semaphore, into docs (ARGS="--seconds 20")
	@$(PYTHON_IN_VENV) -m tests.bench.rate_grants_plot $(ARGS)

bench-objects: $(READY) ## Measure calls of objects a second, contended and not, beside a bare loop (ARGS="--calls 1000 --waiting 10000")
	@$(PYTHON_IN_VENV) -m tests.bench.objects $(ARGS)

bench-flows: $(READY) ## Measure flows: steps a second, fan-outs, 1,000 at once, compared with DBOS, durabletask and Restate (ARGS="--flows 200 --rounds 3")
	@$(PYTHON_IN_VENV) -m tests.bench.flows $(ARGS)

bench-batches: $(READY) ## Measure batches of 100 to 20,000 units on a local stack (ARGS="--rivals" adds a Celery chord and DBOS)
	@$(PYTHON_IN_VENV) -m tests.bench.batches $(ARGS)

bench-watchers: $(READY) ## Measure what streams of events cost the other requests of the same processes (ARGS="--rounds 5")
	@$(PYTHON_IN_VENV) -m tests.bench.watchers $(ARGS)

bench-social: $(READY) ## Measure a hub's save in Social Code, 2,000 dependants of 10,000 functions, in one process (ARGS="--dependants 100")
	@$(PYTHON_IN_VENV) -m tests.bench.social_code $(ARGS)

bench-cold: $(READY) ## Measure functions' cold starts beside a bare function's (ARGS="documents --pairs 9")
	@$(PYTHON_IN_VENV) -m tests.bench.cold_start $(ARGS)

bench-all: $(READY) ## Run all benches and write docs/benchmarks.md, in about half an hour (ARGS="--only objects flows")
	@$(PYTHON_IN_VENV) -m tests.bench.all_benches $(ARGS)

memory: $(READY) ## Measure the peak memory of the largest requests on documents, on the Firestore emulator
	@$(PYTHON_IN_VENV) -m tests.memory

check: $(READY) ## Lint, check formatting and types, and find machine paths and package hosts in tracked files
	@status=0; \
	$(PYTHON_IN_VENV) -m ruff check || status=1; \
	$(PYTHON_IN_VENV) -m ruff format --check || status=1; \
	$(PYTHON_IN_VENV) -m mypy shared/signalbox shared/signalbox_tools examples tests $(wildcard functions/*/*.py) || status=1; \
	for own in $(OWN_FOLDERS); do \
		MYPYPATH=$$own $(PYTHON_IN_VENV) -m mypy $(TYPES_OF_OWN) $$own || status=1; \
	done; \
	$(PYTHON_IN_VENV) -m signalbox_tools.setup.tracked_files || status=1; \
	exit $$status

client: $(READY) ## Generate the blocking client from the asynchronous one
	@$(PYTHON_IN_VENV) -m signalbox_tools.setup.blocking_client

docs: $(READY) ## Write openapi.yaml and the tables in docs/ that are made from it and from the code
	@$(PYTHON_IN_VENV) -m signalbox_tools.setup.generated_pages

cost: $(READY) ## Compute a month's bill (PUTS= COPIES= PAIRS= UNITS= CALLS= STEPS= STORED_GIB= FREE=1; ARGS="--writers kit --multi-region --json")
	@$(PYTHON_IN_VENV) -m signalbox_tools.costs $(if $(PUTS),--puts=$(PUTS)) $(if $(filter-out file,$(origin COPIES)),--copies=$(COPIES)) \
		$(if $(PAIRS),--pairs=$(PAIRS)) $(if $(UNITS),--units=$(UNITS)) $(if $(CALLS),--calls=$(CALLS)) $(if $(STEPS),--steps=$(STEPS)) \
		$(if $(STORED_GIB),--stored-gib=$(STORED_GIB)) $(if $(FREE),--free-tier) $(ARGS)

catalogue: $(READY) ## Show the whole catalogue, with what follows from the code, and write infra/catalogue.lock.yaml
	@$(SIGNALBOX) catalogue

package: $(READY) ## Build dist/NAME.zip of each function, byte-identical on every machine
	@$(SIGNALBOX) package

sbom: $(READY) ## Write dist/sbom.json: the packages of the functions, in CycloneDX
	@mkdir -p dist
	@$(TOOL) --from cyclonedx-bom==7.5.0 cyclonedx-py requirements functions/requirements.txt --of JSON -o dist/sbom.json

audit: $(READY) ## Look for known vulnerabilities in the packages of the functions (asks the package index)
	@$(TOOL) pip-audit==2.10.1 --strict --disable-pip --require-hashes -r functions/requirements.txt

wheel: $(READY) ## Build the package: dist/signalbox-VERSION-py3-none-any.whl
	@$(PYTHON_IN_VENV) -m hatchling build --target wheel --directory dist

bootstrap: $(READY) ## Prepare a project once: a bucket for Terraform's state, a deploying account (PROJECT=my-project)
	@$(TO_CLOUD)

plan: $(READY) ## Show what a deployment would change (PROJECT=my-project ENV=dev REGION=us-central1)
	@$(TO_CLOUD)

deploy: $(READY) ## Prepare, package, plan, confirm, apply, smoke-test (as plan; YES=1 confirms, PLANNED=1 applies the saved plan)
	@$(TO_CLOUD) $(if $(PLANNED),--planned)

smoke: $(READY) ## Smoke-test a deployment through its own URLs (PROJECT=my-project ENV=dev)
	@$(TO_CLOUD)

adopt: $(READY) ## Take into Terraform's state what a killed deployment left ("already exists"), and create the rest
	@$(TO_CLOUD)

unlock: $(READY) ## Release the lock on Terraform's state that a killed command left (PROJECT=my-project)
	@$(TO_CLOUD)

rollback: $(READY) ## Send traffic back to the revisions before the last deployment, without a build (PROJECT=my-project)
	@$(TO_CLOUD)

NAMED = $(if $(QUEUE),--queue=$(QUEUE)) $(if $(SCHEDULE),--schedule=$(SCHEDULE))

pause: $(READY) ## Pause all queues and schedules, or one (QUEUE=, SCHEDULE=; PROJECT=my-project: of a deployment)
	@$(SIGNALBOX) pause $(OF_WHICH) $(NAMED)

resume: $(READY) ## Resume all queues and schedules, or one (QUEUE=, SCHEDULE=; PROJECT=my-project: of a deployment)
	@$(SIGNALBOX) resume $(OF_WHICH) $(NAMED)

restore: $(READY) ## Restore the newest backup into a database of its own (PROJECT=my-project ENV=prod)
	@$(TO_CLOUD)

destroy: $(READY) ## Destroy a deployment after its name is typed (PROJECT=my-project ENV=dev)
	@$(TO_CLOUD)

lock: $(READY) ## Lock every requirements.in with hashes (ARGS=--upgrade: newest versions)
	@$(LOCK) $(ARGS) functions/requirements.in -o functions/requirements.txt
	@$(LOCK) $(ARGS) -c functions/requirements.txt requirements-dev.in -o requirements-dev.txt
	@set -e; for own in $(OWN_REQUIREMENTS); do \
		$(LOCK) $(ARGS) -c requirements-dev.txt $$own -o $${own%.in}.txt; \
	done

setup: $(READY) ## Set up .venv and nothing else
	@:

clean: ## Delete everything that make created, including .venv
	@rm -rf .venv .local dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(LOCKS) shared/signalbox_tools/setup/environment.sh
	@sh shared/signalbox_tools/setup/environment.sh $(LOCKS)
	@touch $@
