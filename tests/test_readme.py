"""The README's ten lines run as they stand, and are no more than ten."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXTRAS = [
    "accelerate",
    "datasets",
    "draccus",
    "lerobot",
    "metaworld",
    "mujoco",
    "pandas",
    "pyarrow",
    "rich",
    "safetensors",
]
EXTRAS += ["scipy", "timm", "torchvision", "transformers", "yaml"]
README = Path(__file__).parents[1] / "README.md"


def snippet() -> str:
    found = re.search(r"<!-- ten-lines -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_ptr_takes_ten_lines_at_most():
    assert 0 < sum(line.endswith("# PTR") for line in snippet().splitlines()) <= 10


def test_the_ten_lines_run_and_reweight(capsys):
    made: dict = {}
    exec(compile(snippet(), "README.md", "exec"), made)
    assert capsys.readouterr().out.count("effective_sample_size") == 5
    ptr, output, policy = made["ptr"], made["output"], made["policy"]
    assert ptr.step == 5
    assert (output.weights != 1).any()  # warm-up is over
    assert ptr.pool.queue.filled.sum() == 5 * 16
    assert ptr.scorer.heads.output.weight.grad.abs().sum() > 0
    assert ptr.belief.initial_tokens.grad.abs().sum() > 0
    followed, online = ptr.target_encoder.tower.patches.weight, policy.vision.patches.weight
    assert (followed - online).abs().max() > 0  # the copy follows slowly


def test_the_method_imports_with_torch_and_numpy_alone():
    """Every package that the extras bring is made unavailable."""
    script = """
import sys
for name in EXTRAS:
    sys.modules[name] = None  # importing it raises ImportError
import ptr_robot.method
""".replace("EXTRAS", repr(EXTRAS))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
