"""A SmolVLM of a few thousand parameters as a folder that transformers loads without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPECIAL = {
    "fake_image_token": "<fake_token_around_image>",
    "image_token": "<image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}
WORDS = ("push", "the", "puck", "open", "drawer", "pick", "bottle")
IMAGE_SIZE = 32


def write_tiny_smolvlm(
    folder: Path, text: dict[str, Any] | None = None, vision: dict[str, Any] | None = None, scale_factor: int = 2
) -> Path:
    """Config, WordLevel tokenizer and processors; the policy draws the weights itself. Sizes may be others."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import (
        PreTrainedTokenizerFast,
        SmolVLMConfig,
        SmolVLMImageProcessor,
        SmolVLMProcessor,
        SmolVLMVideoProcessor,
    )

    names = ["<unk>", "<pad>", "<s>", "</s>", *SPECIAL.values(), *WORDS]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens=SPECIAL,
    )
    size = {"longest_edge": IMAGE_SIZE}
    processor = SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(size=size, max_image_size=size),
        tokenizer=fast,
        video_processor=SmolVLMVideoProcessor(size=size, max_image_size=size),
        image_seq_len=4,
    )
    small_text = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    small_text |= {"num_key_value_heads": 1, "head_dim": 32, "vocab_size": len(names), "model_type": "llama"}
    small_vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2}
    small_vision |= {"image_size": IMAGE_SIZE, "patch_size": 8}
    config = SmolVLMConfig(
        text_config=text or small_text,
        vision_config=vision or small_vision,
        scale_factor=scale_factor,
        pad_token_id=1,
        image_token_id=5,
    )
    config.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
