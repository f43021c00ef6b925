"""Plain Python inside a compiled step, without loading the compiler for those who never compile."""

from __future__ import annotations

import subprocess
import sys

import torch

from ptr_robot.method.ptr.eager import runs_eagerly


def test_importing_the_method_does_not_load_the_compiler() -> None:
    code = "import sys, ptr_robot.method; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_compiler_never_sees_the_function() -> None:
    seen = []

    @runs_eagerly
    def count(values: torch.Tensor, *, step: int) -> torch.Tensor:
        """Documented."""
        seen.append(torch.compiler.is_compiling())
        return values * step

    graphs = []

    def keep(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda values, step: count(values + 1, step=step).square(), backend=keep)
    assert count.__doc__ == "Documented."
    for step in range(5):
        assert compiled(torch.ones(2), step).tolist() == [(2.0 * step) ** 2] * 2
    assert seen == [False] * 5
    assert not any("count" in node.name or node.target is torch.mul for graph in graphs for node in graph.graph.nodes)
