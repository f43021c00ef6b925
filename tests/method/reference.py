"""PTR once more, in plain Python loops over numbers: slow, obvious, and written from the paper alone."""

from __future__ import annotations

import math

import torch

Vector = list[float]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def matrix_times(matrix: list[Vector], vector: Vector) -> Vector:
    return [dot(row, vector) for row in matrix]


def unit(vector: Vector) -> Vector:
    length = max(math.sqrt(dot(vector, vector)), 1e-12)
    return [x / length for x in vector]


def softmax(logits: Vector) -> Vector:
    powers = [math.exp(logit - max(logits)) for logit in logits]
    return [power / sum(powers) for power in powers]


def mean_rows(rows: list[Vector]) -> Vector:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def tokenize(states: list[Vector], actions: list[Vector], fuse: list[Vector], assign: list[Vector], tau: float) -> dict:
    """Eqs. tok_fuse, tok_assign, tok_merge, tok_perstep, tok_entropy and tok_div of one sample."""
    length, slots = len(states), len(assign)
    fused = [[math.tanh(x) for x in matrix_times(fuse, s + a)] for s, a in zip(states, actions, strict=True)]
    logits = [matrix_times(assign, c) for c in fused]  # (L, M)
    over_time = [softmax([logits[i][m] / tau for i in range(length)]) for m in range(slots)]  # (M, L)
    width = len(fused[0])
    tokens = [[sum(over_time[m][i] * fused[i][k] for i in range(length)) for k in range(width)] for m in range(slots)]
    rebuilt = [[sum(over_time[m][i] * tokens[m][k] for m in range(slots)) for k in range(width)] for i in range(length)]
    entropy = -sum(p * math.log(p) for row in over_time for p in row if p > 0) / slots
    overlap = sum(
        (dot(over_time[m], over_time[n]) - (1.0 if m == n else 0.0)) ** 2 for m in range(slots) for n in range(slots)
    )
    return {"tokens": tokens, "rebuilt": rebuilt, "entropy": entropy, "overlap": overlap}


def layer_norm(vector: Vector) -> Vector:
    mean = sum(vector) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)
    return [(x - mean) / math.sqrt(variance + 1e-5) for x in vector]


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def query(heads: torch.nn.Module, fold: int, context: Vector, summary: Vector) -> Vector:
    """f(h, e) of one head."""

    def linear(layer: torch.nn.Module, vector: Vector) -> Vector:
        weight = layer.weight[fold].T.tolist()
        bias = layer.bias[fold, 0].tolist()
        return [y + b for y, b in zip(matrix_times(weight, vector), bias, strict=True)]

    hidden = linear(heads.action_out, [gelu(x) for x in linear(heads.action_in, layer_norm(summary))])
    base = linear(heads.context, layer_norm(context))
    return unit(linear(heads.output, [gelu(a + b) for a, b in zip(base, hidden, strict=True)]))


def logit(u: Vector, y: Vector, tau: float, clamp: float) -> float:
    return min(max(dot(u, unit(y)) / tau, -clamp), clamp)


def score(logits: Vector) -> float:
    """Eq. score, with the matched logit first."""
    return math.log(softmax(logits)[0] / (1 / len(logits)))


def weight(score_value: float, beta: float, alpha: float = 1.0, low: float = 0.25, high: float = 4.0) -> float:
    """Eq. weight."""
    return 1 + alpha * (min(max(math.exp(score_value / beta), low), high) - 1)
