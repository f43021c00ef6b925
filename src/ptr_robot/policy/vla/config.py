"""Every size and switch of the reference policy; ``presets`` names the useful combinations."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ptr_robot.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self

HEADS = ("flow", "diffusion", "autoregressive")
ACTIVATIONS = ("silu", "relu")
BYTES = "bytes"
WORDS = "words"
BUILT_IN_TOKENIZERS = (BYTES, WORDS)  # that are nothing but code


_LARGEST = 16_384  # of the tower's sizes and counts: far above any tower, far below what a machine cannot hold
_LARGEST_NUMBER = 10_000_000  # of any number
_MOST_STEPS = 10_000  # from noise to an action
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
# What timm.create_model would load from elsewhere, or what is ours to say.
_NO_ARGUMENTS = (
    "cache_dir",
    "checkpoint_path",
    "exportable",
    "model_name",
    "no_jit",
    "num_classes",
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "pretrained_strict",
    "scriptable",
)


def _check_tower_argument(name: str, value: Any) -> None:
    """Sizes and switches, as any checkpoint may hold them; no file and nothing that is fetched."""
    if name in _NO_ARGUMENTS:
        raise ConfigError(f"vision.tower_arguments has {name!r}, which is no part of a tower's shape; take it out")
    for part in value if isinstance(value, (list, tuple)) else (value,):
        if not isinstance(part, (bool, int, float, str, type(None))):
            raise ConfigError(f"vision.tower_arguments.{name} is {str(value)[:100]}; it must be plain values")
        if isinstance(part, (int, float)) and not -_LARGEST <= part <= _LARGEST:
            raise ConfigError(f"vision.tower_arguments.{name} is {part}; it must be at most {_LARGEST}")


@dataclass(frozen=True)
class VisionConfig:
    """A timm vision tower and the connector behind it."""

    tower: str = "vit_tiny_patch16_224"  # any timm name, "hf-hub:..." and "local-dir:..." included
    tower_arguments: dict[str, Any] = field(default_factory=dict)  # passed to timm.create_model
    image_size: int = 224  # images of another size are resized
    resize: str = "pad"  # how the data's frames become square, where the data's settings do not say
    shuffle: int = 2  # each square of this many patches becomes one token
    augment: bool = False  # random crop and colour in training
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)  # of the pixels in [0, 1], by channel; by default ImageNet's
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        for name in ("image_size", "shuffle"):
            if not 1 <= getattr(self, name) <= _LARGEST:
                raise ConfigError(f"vision.{name} is {getattr(self, name)}; it must be from 1 to {_LARGEST}")
        for name, value in self.tower_arguments.items():
            _check_tower_argument(name, value)
        for name in ("mean", "std"):
            values = tuple(getattr(self, name))  # JSON has lists
            if len(values) != 3:
                raise ConfigError(f"vision.{name} is {values}; it must be three numbers")
            object.__setattr__(self, name, values)


@dataclass(frozen=True)
class LanguageConfig:
    """How text becomes tokens."""

    tokenizer: str = BYTES  # "bytes", "words", or a folder or hub id that transformers can load
    vocabulary_size: int = 257
    prompt: str = ""  # comes before the images
    max_tokens: int = 256  # of one instruction; a longer one is an error


@dataclass(frozen=True)
class StreamConfig:
    """One stream of the mixture: its own weights, of its own width."""

    width: int
    mlp_width: int


@dataclass(frozen=True)
class TrunkConfig:
    """The mixture of transformers: Qwen3 layers, attention joint over both streams."""

    context: StreamConfig  # text, vision
    action: StreamConfig  # state, belief, actions
    num_layers: int = 4
    num_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    rope_theta: float = 1e6
    checkpoint_activations: bool = False  # trade a second forward pass for memory

    def __post_init__(self) -> None:
        if not 1 <= self.num_layers <= 1000:
            raise ConfigError(f"trunk.num_layers is {self.num_layers}; it must be from 1 to 1000")
        if self.num_key_value_heads < 1 or self.num_heads % self.num_key_value_heads:
            raise ConfigError(
                f"trunk.num_heads is {self.num_heads}; it must be a multiple of num_key_value_heads "
                f"({self.num_key_value_heads})"
            )


@dataclass(frozen=True)
class FlowConfig:
    """Flow matching: σ = 1 is clean, σ = (s − u)/s with u ~ Beta(a, 1)."""

    num_sampling_steps: int = 4
    beta_alpha: float = 1.5  # a
    noise_limit: float = 0.999  # s
    initial_noise: float = 1.0  # the sampler starts from this multiple of standard noise
    num_time_buckets: int = 0  # σ enters the network as one of so many buckets; 0: as it is
    every_slot: bool = False  # noise and sampling also in the slots that a robot lacks

    def __post_init__(self) -> None:
        _require_between("flow.num_sampling_steps", self.num_sampling_steps, 1, _MOST_STEPS)
        _require_between("flow.beta_alpha", self.beta_alpha, 1e-3, 1e3)
        _require_between("flow.noise_limit", self.noise_limit, 1e-3, 1)
        _require_between("flow.initial_noise", self.initial_noise, 0, 1e3)
        _require_between("flow.num_time_buckets", self.num_time_buckets, 0, _LARGEST_NUMBER)


@dataclass(frozen=True)
class DiffusionConfig:
    """DDPM in training, DDIM in sampling."""

    num_train_steps: int = 100
    num_sampling_steps: int = 10
    beta_schedule: str = "squaredcos_cap_v2"
    prediction: str = "v_prediction"  # or "epsilon", "sample": what the network is trained to give
    initial_noise: float = 1.0

    def __post_init__(self) -> None:
        _require_choice("diffusion.prediction", self.prediction, ("v_prediction", "epsilon", "sample"))
        _require_between("diffusion.num_train_steps", self.num_train_steps, 1, _MOST_STEPS)
        _require_between("diffusion.num_sampling_steps", self.num_sampling_steps, 1, self.num_train_steps)
        _require_between("diffusion.initial_noise", self.initial_noise, 0, 1e3)


@dataclass(frozen=True)
class AutoregressiveConfig:
    """Binned actions, one token a step."""

    num_bins: int = 256
    bin_limit: float = 3.0  # bins cover [-limit, limit] of the normalised action; values beyond are clipped
    bin_dim: int = 16  # width of a bin's embedding
    temperature: float = 0.0  # of sampling; 0 takes the likeliest bin

    def __post_init__(self) -> None:
        _require_between("autoregressive.num_bins", self.num_bins, 2, _LARGEST_NUMBER)
        _require_between("autoregressive.bin_limit", self.bin_limit, 1e-3, 1e6)
        _require_between("autoregressive.bin_dim", self.bin_dim, 1, _LARGEST)
        _require_between("autoregressive.temperature", self.temperature, 0, 1e3)


@dataclass(frozen=True)
class PolicyConfig:
    """The whole reference policy."""

    trunk: TrunkConfig
    vision: VisionConfig | None = None  # None: state only
    language: LanguageConfig = field(default_factory=LanguageConfig)
    chunk_length: int = 16  # L
    num_state_tokens: int = 1
    num_belief_tokens: int = 4  # M; 0: the policy takes no belief
    # False: h_t = f(o, l, z) as the paper has it, and actions alone see the state; True: h_t has read the state.
    context_sees_state: bool = True
    activation: str = "silu"  # or "relu": between the layers of the state's and the output's MLP
    head: str = "flow"
    flow: FlowConfig = field(default_factory=FlowConfig)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)
    autoregressive: AutoregressiveConfig = field(default_factory=AutoregressiveConfig)

    def __post_init__(self) -> None:
        _require_choice("head", self.head, HEADS)
        _require_choice("activation", self.activation, ACTIVATIONS)
        for name in ("chunk_length", "num_state_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        _require_between("num_belief_tokens", self.num_belief_tokens, 0, _LARGEST)

    @property
    def image_size(self) -> int:
        """Pixels of a square image; 0: state only."""
        return self.vision.image_size if self.vision else 0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of ``dataclasses.asdict``; an unknown or missing field is an error that names it."""
        values = dict(values)
        for name, kind in cls.sections().items():
            _build_in_place(values, name, kind, _STREAMS if kind is TrunkConfig else None)
        built: Self = _build(cls, values, "policy")
        return built

    @classmethod
    def sections(cls) -> dict[str, type]:
        """The fields that are configurations themselves."""
        return {
            "trunk": TrunkConfig,
            "vision": VisionConfig,
            "language": LanguageConfig,
            "flow": FlowConfig,
            "diffusion": DiffusionConfig,
            "autoregressive": AutoregressiveConfig,
        }


_STREAMS: dict[str, type] = {"context": StreamConfig, "action": StreamConfig}


def _build_in_place(values: dict[str, Any], name: str, kind: type, nested: dict[str, type] | None = None) -> None:
    """Turn the plain values under ``name`` into a ``kind``."""
    if values.get(name) is None:
        return
    inner = dict(values[name])
    for inner_name, inner_kind in (nested or {}).items():
        _build_in_place(inner, inner_name, inner_kind)
    values[name] = _build(kind, inner, name)


def _build(kind: type, values: dict[str, Any], place: str) -> Any:
    known = [entry.name for entry in dataclasses.fields(kind)]
    for name in values:
        if name not in known:
            raise ConfigError(f"{place} has no field {name!r}; {did_you_mean(name, known)}")
    for entry in dataclasses.fields(kind):
        _check_type(f"{place}.{entry.name}", str(entry.type), values.get(entry.name, entry.default))
    try:
        return kind(**values)
    except TypeError as error:
        raise ConfigError(f"{place}: {error}") from error


def _check_type(place: str, kind: str, value: Any) -> None:
    """Refuse a plain value of another type, or a number that no policy has; fields of other types check themselves."""
    if value is None and "None" not in kind:
        raise ConfigError(f"{place} is null; it must be of the type {kind}")
    expected = _PLAIN_TYPES.get(kind)
    if expected is None or value is dataclasses.MISSING:
        return
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"{place} is {str(value)[:100]!r}; it must be of the type {kind}")
    if isinstance(value, (int, float)) and not abs(value) <= _LARGEST_NUMBER:
        raise ConfigError(f"{place} is {str(value)[:100]}; no policy has that many")


def _require_choice(name: str, value: str, options: tuple[str, ...]) -> None:
    if value not in options:
        raise ConfigError(f"{name} is {value!r}; {did_you_mean(value, options)}")


def _require_between(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ConfigError(f"{name} is {value}; it must be from {least:g} to {most:g}")
