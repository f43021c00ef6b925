"""The config.json of a Being-H0.5 checkpoint as our own configuration; what we cannot honour is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.errors import DataError
from ptr_robot.policy.being_h.config import BeingHConfig, GatingConfig
from ptr_robot.policy.vla.config import FlowConfig, LanguageConfig, StreamConfig, TrunkConfig, VisionConfig
from ptr_robot.text_files import read_json

CONFIG_FILE = "config.json"
MODEL_TYPE = "beingh"
TOWER = "vit_intern300m_patch14_448"  # its blocks; width and depth come from the config
RESIZE = "bicubic_crop"
# What the checkpoints were told; each name is the config's own.
SYSTEM_MESSAGES = {"being_h0": "You are Being-H0, a helpful and harmless AI assistant developed by BeingBeyond."}
INSTRUCTIONS = {"long": "According to the instruction '{task}', what's the micro-step actions in the next {k} steps?"}
# Settings that change the computation, and the one value that ours has.
_FIXED = {
    "use_expert": True,
    "use_flow_matching": True,
    "connector_arch": "internvl_connector",
    "select_layer": -1,
    "downsample_ratio": 0.5,
    "noise_beta_beta": 1.0,
    "attn_mode": "causal",
}
_FIXED_LANGUAGE = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False, "qk_norm": True}
_FIXED_VISION = {
    "layer_norm_eps": 1e-6,
    "hidden_act": "gelu",
    "norm_type": "layer_norm",
    "qkv_bias": True,
    "qk_normalization": False,
}


@dataclass(frozen=True)
class _Section:
    """A part of the file, whose missing and unfit values are named with their place."""

    place: str
    values: dict[str, Any]

    def get(self, name: str, kind: type) -> Any:
        value = self.values.get(name)
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DataError(f"{self.place}: {name} is {value!r}; expected a {kind.__name__}: fetch the file again")
        return value

    def size(self, name: str) -> int:
        value = self.get(name, int)
        if value < 1:
            raise DataError(f"{self.place}: {name} is {value}; it must be at least 1")
        return int(value)

    def section(self, name: str) -> _Section:
        return _Section(f"{self.place}: {name}", self.get(name, dict))

    def require(self, fixed: dict[str, Any]) -> None:
        for name, value in fixed.items():
            if self.values.get(name, value) != value:
                raise DataError(
                    f"{self.place}: {name} is {self.values[name]!r}; Being-H0.5 is read with {value!r} alone"
                )


def is_released(folder: Path) -> bool:
    """Whether the folder holds a checkpoint in Being-H0.5's own layout."""
    try:
        record = read_json(folder / CONFIG_FILE, "fetch it again")
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("model_type") == MODEL_TYPE


def read_released_config(folder: Path, *, has_gating: bool = False) -> BeingHConfig:
    """The policy that the folder describes, with MPG where asked for."""
    file = folder / CONFIG_FILE
    if not is_released(folder):
        raise DataError(f"{file} is not the config of a Being-H0.5 checkpoint (model_type {MODEL_TYPE!r})")
    top = _Section(str(file), read_json(file, "fetch it again"))
    language, vision = top.section("llm_config"), top.section("vit_config")
    top.require(_FIXED)
    language.require(_FIXED_LANGUAGE)
    vision.require(_FIXED_VISION)
    return BeingHConfig(
        trunk=_trunk(language),
        vision=_vision(vision, top.size("force_image_size")),
        language=LanguageConfig(
            tokenizer=str(folder),
            vocabulary_size=language.size("vocab_size"),
            prompt=_named(top, "template", SYSTEM_MESSAGES),
            max_tokens=512,
        ),
        instruction=_named(top, "prompt_template", INSTRUCTIONS),
        chunk_length=top.size("action_chunk_length"),
        activation="relu",
        flow=FlowConfig(
            num_sampling_steps=top.size("num_inference_timesteps"),
            beta_alpha=top.get("noise_beta_alpha", float),
            noise_limit=top.get("noise_s", float),
            num_time_buckets=top.size("num_timestep_buckets"),
            every_slot=True,
        ),
        gating=_gating(top) if has_gating else None,
        base=str(folder),
    )


def _trunk(language: _Section) -> TrunkConfig:
    expert = language.section("expert_config")
    expert.require(_FIXED_LANGUAGE)
    for name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "rope_theta"):
        expert.require({name: language.values.get(name)})
    return TrunkConfig(
        context=StreamConfig(language.size("hidden_size"), language.size("intermediate_size")),
        action=StreamConfig(expert.size("hidden_size"), expert.size("intermediate_size")),
        num_layers=language.size("num_hidden_layers"),
        num_heads=language.size("num_attention_heads"),
        num_key_value_heads=language.size("num_key_value_heads"),
        head_dim=language.size("head_dim"),
        rope_theta=language.get("rope_theta", float),
    )


def _vision(vision: _Section, image_size: int) -> VisionConfig:
    vision.require({"image_size": image_size})
    width = vision.size("hidden_size")
    arguments = {
        "img_size": image_size,
        "patch_size": vision.size("patch_size"),
        "embed_dim": width,
        "depth": vision.size("num_hidden_layers"),
        "num_heads": vision.size("num_attention_heads"),
        "mlp_ratio": vision.size("intermediate_size") / width,
    }
    return VisionConfig(tower=TOWER, tower_arguments=arguments, image_size=image_size, resize=RESIZE)


def _gating(top: _Section) -> GatingConfig:
    if not top.values.get("use_mpg"):
        raise DataError(f"{top.place}: use_mpg is {top.values.get('use_mpg')!r}; this checkpoint has no MPG to load")
    return GatingConfig(
        strength=top.get("mpg_lambda", float),
        num_directions=top.size("mpg_num_projections"),
        temperature=top.get("mpg_gate_temperature", float),
        num_refinements=top.size("mpg_refinement_iters"),
    )


def _named(top: _Section, name: str, known: dict[str, str]) -> str:
    value = top.get(name, str)
    if value not in known:
        raise DataError(f"{top.place}: {name} is {value!r}; known are: {', '.join(known)}")
    return known[value]
