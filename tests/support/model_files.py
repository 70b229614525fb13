"""Files of models, config.json, as their makers lay them beside the weights."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama 3 8B": LLAMA,
    "Mixtral 8x7B": {
        **LLAMA, "model_type": "mixtral", "vocab_size": 32000, "max_position_embeddings": 32768,
        "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "Qwen 2.5 0.5B": {
        "model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
        "vocab_size": 151936, "tie_word_embeddings": True,
    },
    "Qwen 3 30B-A3B": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "head_dim": 128,
        "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144,
        "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    },
    "GPT-2": {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257,
    },
    "DeepSeek V3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
        "vocab_size": 129280, "n_routed_experts": 256, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128, "v_head_dim": 128,
    },
}  # fmt: skip
"""Name in our table -> its file."""
