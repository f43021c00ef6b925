"""``ptr export``: act on scores (``ptr export DATASET``), or write a trained policy in another layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError, did_you_mean

POLICY_FORMATS = ("being-h", "lerobot")


@dataclass(frozen=True)
class ExportedPolicy:
    """Which policy."""

    # A run (its last checkpoint), a checkpoint or its pretrained_model folder.
    path: str | None = None


@dataclass(frozen=True)
class ExportFlags:
    """ptr export DATASET --output_dir=FOLDER, or ptr export --policy.path=RUN --output_dir=FOLDER."""

    dataset: str = ""  # folder (v2.1 or v3.0) or hub id of a scored dataset; may be given as a bare word
    output_dir: str = ""  # a new folder for what is written
    scores: str | None = None  # the folder that ptr score wrote; default: outputs/score/<dataset's name>
    verdicts: str | None = None  # marks that were saved from the report: they overrule the scores
    flagged: str = "keep"  # keep or drop: what becomes of episodes that are to be looked at
    copy_dataset: bool = True  # write a filtered copy (v3.0), too
    policy: ExportedPolicy = field(default_factory=ExportedPolicy)
    format: str | None = None  # of a policy: being-h (its released layout) or lerobot (the plain base policy)
    base: str | None = None  # being-h: the checkpoint that the policy came from, where it is no longer there


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    flags = parse_flags(ExportFlags, arguments, positional=("dataset",))
    if bool(flags.dataset) == bool(flags.policy.path):
        raise ConfigError("name what to export: ptr export DATASET, or ptr export --policy.path=RUN")
    if not flags.output_dir:
        raise ConfigError("--output_dir is missing: it names a new folder for what is written")
    if flags.policy.path:
        return _export_policy(flags)
    return _export_dataset(flags)


def _export_dataset(flags: ExportFlags) -> int:
    from ptr_robot.audit.export import export_dataset
    from ptr_robot.audit.report import check_same_dataset
    from ptr_robot.audit.score_files import read_scores, scores_folder
    from ptr_robot.data.lerobot.index import find_folder, open_index
    from ptr_robot.scorers.decisions import decide
    from ptr_robot.scorers.marks import read_marks

    root = find_folder(flags.dataset)
    index = open_index(root, skip_bad_episodes=True, camera_keys=(), vector_keys=())
    scores = read_scores(scores_folder(root, flags.scores))
    check_same_dataset(index, scores)
    marked = Path(flags.verdicts).expanduser() if flags.verdicts else None
    marks = read_marks(marked, scores.rows, index.total_frames) if marked else {}
    decisions = decide(scores.rows, marks, flags.flagged)
    done = export_dataset(
        index, scores, decisions, Path(flags.output_dir).expanduser(), copy_dataset=flags.copy_dataset
    )
    overruled = sum(decision.is_overruled for decision in decisions.values())
    sys.stdout.write(
        f"{len(done.kept)} episodes kept, {len(done.dropped)} dropped, {len(done.renamed)} with a corrected "
        f"instruction, {overruled} overruled by you\n"
    )
    sys.stdout.write("\n".join(done.commands) + "\n")
    sys.stdout.write(f"everything is in {done.folder}\n")
    return 0


def _export_policy(flags: ExportFlags) -> int:
    if flags.format is not None and flags.format not in POLICY_FORMATS:
        raise ConfigError(f"there is no format {flags.format!r}; {did_you_mean(flags.format, POLICY_FORMATS)}")
    source, output = Path(str(flags.policy.path)).expanduser(), Path(flags.output_dir).expanduser()
    from ptr_robot.lerobot.export import export_base_policy
    from ptr_robot.lerobot.saved import find_pretrained

    if flags.format == "lerobot" or (flags.format is None and find_pretrained(source) is not None):
        folder, kind = export_base_policy(source, output)
        sys.stdout.write(f"written: {folder}, a policy of LeRobot's own type {kind!r}\n")
        return 0
    return _export_being_h(flags, source, output)


def _export_being_h(flags: ExportFlags, source: Path, output: Path) -> int:
    from ptr_robot.policy.being_h.export import export_released, unlike_released
    from ptr_robot.policy.being_h.policy import BeingHPolicy
    from ptr_robot.policy.interface import Policy
    from ptr_robot.train.trained import load_trained

    policy: Policy = load_trained(source).policy
    if not isinstance(policy, BeingHPolicy):
        raise ConfigError(f"{source} holds no Being-H0.5 policy; --format=being-h writes such policies alone")
    written = export_released(policy, output, base=Path(flags.base).expanduser() if flags.base else None)
    sys.stdout.write(f"written: {written}\n")
    if left_out := unlike_released(policy.config):
        sys.stderr.write(
            f"note: the policy was trained with {', '.join(left_out)}, which the released layout cannot say, so the "
            "public code computes something else from it; ptr serve and ptr eval take the run itself\n"
        )
    return 0
