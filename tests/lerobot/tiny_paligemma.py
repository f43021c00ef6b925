"""π0 and π0.5 of a few thousand parameters, and PaliGemma's tokenizer as a folder; LeRobot fixes both by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TOKENIZER = "google/paligemma-3b-pt-224"
WORDS = ("push", "the", "puck", "Task", "State", "Action", ":", ";", ",")
VOCABULARY = 300  # bytes of the discretised state, words and special tokens
IMAGE_SIZE = 28


def shrink_pi() -> None:
    """Let LeRobot's policies be built with tiny stacks, in this process."""
    from lerobot.policies.pi0 import modeling_pi0
    from lerobot.policies.pi05 import modeling_pi05

    for module in (modeling_pi0, modeling_pi05):
        if module.get_gemma_config is not _tiny_gemma:
            module.get_gemma_config = _tiny_gemma
            module.PaliGemmaForConditionalGenerationWithPiGemma = _shrunk(
                module.PaliGemmaForConditionalGenerationWithPiGemma
            )
            module.PiGemmaForCausalLM = _shrunk(module.PiGemmaForCausalLM)


def write_tokenizer(folder: Path) -> None:
    """Where ``transformers`` looks first: a folder of that name below the present one."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    names = ["<unk>", "<pad>", "<bos>", "<eos>", *WORDS, *map(str, range(256))]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / TOKENIZER)


def _tiny_gemma(variant: str) -> Any:
    from lerobot.policies.pi0.modeling_pi0 import GemmaConfig

    width = {"gemma_2b": 32, "gemma_300m": 16}[variant]
    # Eight heads: LeRobot's attention counts on them.
    return GemmaConfig(width=width, depth=2, mlp_dim=32, num_heads=8, num_kv_heads=1, head_dim=8)


def _shrunk(network: Any) -> Any:
    def build(config: Any) -> Any:
        text = getattr(config, "text_config", config)
        text.vocab_size = VOCABULARY
        if text is not config:
            config.image_token_index = config._vocab_size = VOCABULARY - 1
            vision = config.vision_config
            vision.hidden_size, vision.intermediate_size, vision.projection_dim = 16, 32, text.hidden_size
            vision.num_hidden_layers, vision.num_attention_heads = 4, 2
        return network(config)

    return build
