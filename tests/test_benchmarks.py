"""Benchmarks are run by hand; what they take from the package must be there."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.py")))
def test_a_benchmark_finds_what_it_imports(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(FOLDER)  # they import each other
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    assert Path(module.__file__).parent == FOLDER
    assert f"python benchmarks/{name}.py" in module.__doc__
