"""The shape of a transformer, and how many parameters follow from it."""

from __future__ import annotations

import msgspec

from ..model.severity import Word


class Biases(Word):
    """Which linear layers add a bias."""

    NONE = "none"
    QKV = "qkv"
    """Those of query, key and value alone (Qwen 2)."""
    ALL = "all"
    """All, and the norms too: LayerNorm, as GPT has it."""


class ModelShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder: counts and widths, as a config.json of Hugging Face has them."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    """Width inside the feed-forward of a dense layer."""
    vocabulary: int
    gated: bool = True
    """Whether the feed-forward has three matrices (SwiGLU) and not two."""
    tied: bool = False
    """Whether embedding and head are one matrix."""
    biases: Biases = Biases.NONE
    qk_norm: bool = False
    """Whether query and key are normalised for each head (Qwen 3)."""
    positions: int = 0
    """Learned positions; 0 for rotary ones."""
    context: int = 0
    """The longest sequence it was made for; 0 where that is not told."""
    experts: int = 0
    active_experts: int = 0
    shared_experts: int = 0
    expert_width: int = 0
    """Width inside one expert."""
    dense_layers: int = 0
    """Layers at the beginning without experts, in a model with experts."""
    query_rank: int = 0
    """Width that queries are squeezed to (MLA); 0 where they are not."""
    kv_rank: int = 0
    """Width that keys and values are squeezed to, which is all that is kept of them; 0: no MLA."""
    rope_dim: int = 0
    """Of MLA: the part of a key that rotates and that all heads share."""
    value_dim: int = 0
    """Of MLA: width of a value of one head; elsewhere `head_dim`."""
    source: str = ""
    """Address of what it was copied from."""

    @property
    def latent(self) -> bool:
        """Whether its attention is the latent one of DeepSeek (MLA)."""
        return self.kv_rank > 0

    @property
    def query_width(self) -> int:
        """Width of all queries of a token, which is that of its attention scores' operands."""
        return self.heads * (self.head_dim + (self.rope_dim if self.latent else 0))

    @property
    def value_width(self) -> int:
        """Width of what attention gives for a token, over all heads."""
        return self.heads * (self.value_dim or self.head_dim)

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers if self.experts else 0

    # Parameters, by part.

    @property
    def embedding(self) -> int:
        """Rows for each token, and the learned positions."""
        return (self.vocabulary + self.positions) * self.hidden

    @property
    def head(self) -> int:
        """Multiplications of the last matrix; they are there when it is the embedding, too."""
        return self.vocabulary * self.hidden

    @property
    def attention_layer(self) -> int:
        """One layer's attention, without its norm."""
        if self.latent:
            return self._latent_layer()
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        weights = self.hidden * (2 * q + 2 * kv)
        if self.biases is not Biases.NONE:
            weights += q + 2 * kv
        if self.biases is Biases.ALL:
            weights += self.hidden
        return weights + (2 * self.head_dim if self.qk_norm else 0)

    def _latent_layer(self) -> int:
        each = self.head_dim + self.rope_dim
        queries = self.hidden * self.heads * each
        if self.query_rank:
            queries = self.query_rank * (self.hidden + 1 + self.heads * each)
        squeezed = self.hidden * (self.kv_rank + self.rope_dim) + self.kv_rank
        spread = self.kv_rank * self.heads * (self.head_dim + self.value_dim)
        return queries + squeezed + spread + self.value_width * self.hidden

    def _feed_forward(self, width: int) -> int:
        bias = width + self.hidden if self.biases is Biases.ALL else 0
        return (3 if self.gated else 2) * self.hidden * width + bias

    @property
    def dense_layer(self) -> int:
        """A feed-forward without experts."""
        return self._feed_forward(self.feed_forward)

    @property
    def expert(self) -> int:
        """One expert of one layer."""
        return self._feed_forward(self.expert_width) if self.experts else 0

    @property
    def beside_experts(self) -> int:
        """What a layer with experts has for every token: the router and the shared experts."""
        return self.experts * self.hidden + self.shared_experts * self.expert

    @property
    def norms(self) -> int:
        """Two in each layer, and the last one."""
        each = self.hidden * (2 if self.biases is Biases.ALL else 1)
        return (2 * self.layers + 1) * each

    @property
    def attention(self) -> int:
        """The attention of all layers."""
        return self.layers * self.attention_layer

    @property
    def all_experts(self) -> int:
        """All that expert parallelism divides."""
        return self.expert_layers * self.experts * self.expert

    @property
    def dense_feed_forward(self) -> int:
        """All feed-forwards that every token passes, routers included."""
        dense = (self.layers - self.expert_layers) * self.dense_layer
        return dense + self.expert_layers * self.beside_experts

    @property
    def parameters(self) -> int:
        """All of them."""
        matrices = self.attention + self.dense_feed_forward + self.all_experts + self.norms
        return matrices + self.embedding + (0 if self.tied else self.head)

    @property
    def active(self) -> int:
        """Those that one token uses."""
        idle = self.experts - self.active_experts
        return self.parameters - self.expert_layers * idle * self.expert

    @property
    def multiplied(self) -> int:
        """Parameters that one token is multiplied with: the head counts, the embedding does not."""
        return self.active - self.embedding + (self.head if self.tied else 0) - self.norms
