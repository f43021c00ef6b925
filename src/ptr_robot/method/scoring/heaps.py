"""A group of episodes that a channel sets apart from the others, though none of them is an outlier.

Where a third of a dataset has the same fault, its values make a second heap beside that of the good ones, and a spread
that covers both hides it. Two heaps with a valley between them can be told apart all the same.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Values = NDArray[np.float64]

_FEWEST = 12  # values that two heaps can be seen in
_FEWEST_MEMBERS = 3
_LEAST_SHARE, _MOST_SHARE = 0.05, 0.6  # of the upper heap
_LEAST_SEPARATION = 3.8  # deviations of the wider of the flanks that face each other, between the centres
_VALLEY_WIDTHS = (0.15, 0.3, 0.45)  # of the way from centre to centre
_FLANK = 0.35  # of that way: what counts as around a centre
_MOST_IN_VALLEY = 0.3  # of the number that is expected there
_CHANCE = 0.005  # that a valley as empty lies somewhere between two places of one heap
_NUM_ROUNDS = 50


def upper_heap(values: Values) -> NDArray[np.bool_] | None:  # (E,) -> (E,)
    """Which values belong to the upper one of two heaps; None where there is one heap, or no valley between them."""
    known = np.isfinite(values)
    if known.sum() < _FEWEST or np.ptp(values[known]) <= 0:
        return None
    is_upper = _split(values[known])
    if is_upper is None or not _LEAST_SHARE <= is_upper.mean() <= _MOST_SHARE:
        return None
    below, above = values[known][~is_upper], values[known][is_upper]
    lower, upper = float(np.median(below)), float(np.median(above))
    facing = [below[below >= lower] - lower, upper - above[above <= upper]]  # the flanks that face the valley
    width = max(float(np.sqrt((flank**2).mean())) for flank in facing)
    if upper - lower < _LEAST_SEPARATION * width or not _has_valley(values[known], lower, upper):
        return None
    found = np.zeros(len(values), dtype=np.bool_)
    found[known] = is_upper
    return found


def _split(values: Values) -> NDArray[np.bool_] | None:  # (n,) -> (n,)
    """By two normal distributions, fitted from the split that leaves the least variance."""
    ordered = np.sort(values)
    counts = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)[:-1]
    between = counts * (len(ordered) - counts) * ((ordered.sum() - sums) / (len(ordered) - counts) - sums / counts) ** 2
    is_upper: NDArray[np.bool_] = values >= ordered[int(between.argmax()) + 1]
    least = 0.02 * float(values.std())
    for _ in range(_NUM_ROUNDS):
        if min(is_upper.sum(), (~is_upper).sum()) < _FEWEST_MEMBERS:
            return None
        logs = []
        for members in (~is_upper, is_upper):
            centre, deviation = float(values[members].mean()), float(values[members].std()) + least
            distance = np.maximum(values - centre, 0.0) if members is not is_upper else np.minimum(values - centre, 0.0)
            logs.append(np.log(members.mean()) - np.log(deviation) - 0.5 * (distance / deviation) ** 2)
        again: NDArray[np.bool_] = logs[1] > logs[0]
        if (again == is_upper).all():
            break
        is_upper = again
    return is_upper


def _has_valley(values: Values, lower: float, upper: float) -> bool:
    """Whether somewhere between the centres there are far fewer values than one heap would have there by chance.

    Between two places of one heap it is nowhere thinner than at the thinner of them, so the number in a window of some
    width is Poisson with at least that density. Windows side by side, and as many half-way between them, are the tries.
    """
    way, ordered = upper - lower, np.sort(_untied(values))
    reach = _FLANK * way
    density = min(float((np.abs(values - centre) <= reach).sum()) for centre in (lower, upper)) / (2.0 * _FLANK)
    for share in _VALLEY_WIDTHS:
        firsts = np.linspace(lower, upper - share * way, 60)
        inside = int((np.searchsorted(ordered, firsts + share * way) - np.searchsorted(ordered, firsts)).min())
        expected, tries = share * density, 2.0 * len(_VALLEY_WIDTHS) / share
        if inside <= _MOST_IN_VALLEY * expected and tries * _poisson_at_most(inside, expected) <= _CHANCE:
            return True
    return False


def _poisson_at_most(count: int, mean: float) -> float:
    """P(N <= count)."""
    shape, place = (torch.tensor(number, dtype=torch.float64) for number in (count + 1.0, mean))
    return float(torch.special.gammaincc(shape, place))


def _untied(values: Values) -> Values:  # (n,) -> (n,)
    """Spread over their step where most values stand on steps: what lies between two steps is no valley."""
    distinct, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(distinct) < 2 or 2 * len(distinct) > len(values):
        return values
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = float(np.median(np.diff(distinct)))
    spread: Values = values + step * ((ranks + 0.5) / counts[places] - 0.5)
    return spread
