"""What a user would try instead of PTR: rules that suspect episodes without labels. Higher is worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptr_robot.scorers.action_error import cross_validated_error
from ptr_robot.scorers.motion import jerk, length
from ptr_robot.scorers.neighbours import neighbour_deviation
from ptr_robot.scorers.tracks import Track

# From the episodes of a dataset, the length of a chunk and a seed to one suspicion an episode, in their order.
Rule = Callable[[Sequence[Track], int, int], list[float]]

RULES: dict[str, Rule] = {
    "action-error": cross_validated_error,
    "knn": neighbour_deviation,
    "length": length,
    "jerk": jerk,
}
