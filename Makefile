# `make test` and `make demo` do everything on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# LeRobot 0.4 is the newest below Python 3.12, 0.6 needs 3.12: the tested versions of all packages differ.
CONSTRAINTS := $(shell $(firstword $(wildcard $(BIN)/python) $(PYTHON)) -c 'import sys; print("constraints-py312.txt" if sys.version_info >= (3, 12) else "constraints.txt")')
DATA ?= ../shared/data

# Tests that need the real G1 demonstrations find them here; without the folder they say why they are skipped.
ifneq ($(wildcard $(DATA)/g1_pick_bottle/meta/info.json),)
export PTR_ROBOT_G1_DATASET ?= $(abspath $(DATA)/g1_pick_bottle)
endif
# A tiny checkpoint in the layout of Being-H0.5's releases, with what their own code computes from it.
ifneq ($(wildcard $(DATA)/being_h05_tiny/checkpoint/config.json),)
export PTR_ROBOT_BEING_H_TINY ?= $(abspath $(DATA)/being_h05_tiny)
endif
# LIBERO's meshes and scenes, which its package does not ship (make libero).
ifneq ($(wildcard $(DATA)/libero_assets/scenes),)
export PTR_ROBOT_LIBERO_ASSETS ?= $(abspath $(DATA)/libero_assets)
endif
export HF_HUB_OFFLINE ?= 1
export MUJOCO_GL ?= egl

.PHONY: help install system test fuzz faults lint demo libero clean test-lerobot06

help:
	@echo "make test     install, then lint, type-check, check the layers and run every test"
	@echo "make demo     install, then collect, train SFT, PTR, screening and the clean part, evaluate, compare, audit"
	@echo "make fuzz     as the tests do, with INPUTS (2000) damaged inputs for each kind of file that is read"
	@echo "make faults   kill a run, and fill its disk, at its file-system calls (PTR_ROBOT_FAULTS=every: at each of a table's writes too)"
	@echo "make lint     ruff, mypy --strict and the import layers"
	@echo "make test-lerobot06  the tests of all that meets LeRobot on its 0.6, where there is a Python 3.12 or later"
	@echo "make install  the virtual environment in $(VENV)"
	@echo "make libero   LIBERO's package and assets: from PTR_ROBOT_LIBERO_ASSETS, or downloaded with DOWNLOAD=1"
	@echo "make clean    remove the virtual environment and caches"

install: system $(STAMP)

system:
	@bash scripts/system_packages.sh

# openpi-client, which ptr serve is tested with, asks for an older NumPy than it needs.
$(STAMP): pyproject.toml $(CONSTRAINTS) plugins/lerobot_policy_ptr/pyproject.toml
	@echo "Installing into $(VENV) (several GB on the first run: PyTorch brings its GPU libraries)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv -c $(CONSTRAINTS)
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c $(CONSTRAINTS) -e '.[all,dev]' -e plugins/lerobot_policy_ptr
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps openpi-client==0.1.2
	@touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

test-lerobot06:
	bash scripts/test_lerobot06.sh

# Many inputs for what `make test` fuzzes for seconds, and faults at every file-system call. Both print their counts.
fuzz: install
	PTR_ROBOT_FUZZ=$(or $(INPUTS),2000) $(BIN)/pytest tests/fuzz --numprocesses=auto --maxprocesses=4

faults: install
	PTR_ROBOT_FAULTS=$(or $(PTR_ROBOT_FAULTS),all) $(BIN)/pytest tests/faults --numprocesses=auto --maxprocesses=4

demo: install
	$(BIN)/ptr demo

# robosuite asks for opencv-python, whose files would overwrite those of LeRobot's opencv-python-headless.
libero: install
	@CMAKE_POLICY_VERSION_MINIMUM=3.5 $(BIN)/uv pip install --quiet --python $(BIN)/python -c $(CONSTRAINTS) \
		--override scripts/libero_overrides.txt -e '.[libero]'
	@HF_HUB_OFFLINE=$(if $(DOWNLOAD),0,1) $(BIN)/python -m ptr_robot.envs.libero.prepare $(if $(DOWNLOAD),--download)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
