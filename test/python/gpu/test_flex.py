"""flashc.torch.flex_attention against PyTorch's FlexAttention on a GPU. Skipped where there is no GPU, or no
FlexAttention.

Numbers follow the rule of docs/checking.md. The numbers of FlexAttention in float32 follow it too, which shows that
both functions mean the same."""

import warnings

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
torch_flex = pytest.importorskip("torch.nn.attention.flex_attention")

import flashc  # noqa: E402
import flashc.torch  # noqa: E402
from flashc import masks  # noqa: E402
from flashc.bench import _check  # noqa: E402
from .tensors import positions, qkv  # noqa: E402

BF16, F16 = torch.bfloat16, torch.float16


@pytest.fixture(autouse=True)
def quiet():
    torch.set_float32_matmul_precision("highest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pytorch(*arguments):
    """Runs FlexAttention and returns the log-sum-exp too, for which newer versions of PyTorch have another argument."""
    if not hasattr(torch_flex, "AuxRequest"):
        return torch_flex.flex_attention(*arguments, return_lse=True)
    o, aux = torch_flex.flex_attention(*arguments, return_aux=torch_flex.AuxRequest(lse=True))
    return o, aux.lse


def check(q, k, v, score_mod=None, mask_mod=None, scale=None, enable_gqa=False):
    """Compares flashc, and FlexAttention in float32, with the reference."""
    b, h, nq, nk = *q.shape[:3], k.shape[2]
    block_mask = None if mask_mod is None else torch_flex.create_block_mask(mask_mod, b, h, nq, nk, device="cuda")
    o, lse = flashc.torch.flex_attention(q, k, v, score_mod, block_mask, scale, enable_gqa, return_lse=True)
    place = positions(b, h, nq, nk)
    keep = None if mask_mod is None else mask_mod(*place).broadcast_to(b, h, nq, nk)
    reference = _check.Reference(q, k, v, keep, score_mod and (lambda s: score_mod(s, *place)), scale)
    problem = reference.compare(o, lse).problem
    assert not problem, problem
    theirs, their_lse = pytorch(q.float(), k.float(), v.float(), score_mod, block_mask, scale, enable_gqa)
    assert (theirs - reference.o).abs().max() <= 1e-3
    alive = reference.lse > -torch.inf
    assert (their_lse - reference.lse)[alive].abs().max() <= 1e-3


# --- Scores and masks -------------------------------------------------------------------------------------------------

SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
BIAS = torch.linspace(-1, 1, 700, device="cuda")
IDS = torch.arange(700, device="cuda") // 90
LENGTHS = torch.tensor([200, 333], device="cuda")

SCORES = {
    "relative": lambda score, b, h, q_idx, kv_idx: score + (q_idx - kv_idx) * 0.125,
    "slopes": lambda score, b, h, q_idx, kv_idx: score + SLOPES[h] * (kv_idx - q_idx),
    "cap": lambda score, b, h, q_idx, kv_idx: 5 * torch.tanh(score / 5),
    "mask as score": lambda score, b, h, q_idx, kv_idx: torch.where(q_idx >= kv_idx, score, -float("inf")),
    "bias": lambda score, b, h, q_idx, kv_idx: score + BIAS[kv_idx],
}
MASKS = {
    "causal": lambda b, h, q_idx, kv_idx: q_idx >= kv_idx,
    "window": lambda b, h, q_idx, kv_idx: (q_idx >= kv_idx) & (q_idx - kv_idx <= 100),
    "documents": lambda b, h, q_idx, kv_idx: IDS[q_idx] == IDS[kv_idx],
    "padding": lambda b, h, q_idx, kv_idx: kv_idx < LENGTHS[b],
    "prefix": lambda b, h, q_idx, kv_idx: (kv_idx < 50) | (q_idx >= kv_idx),
    "heads": lambda b, h, q_idx, kv_idx: (q_idx >= kv_idx) & ((h % 2 == 0) | (q_idx - kv_idx < 64)),
    "named causal": masks.causal("top-left"),
    "named sinks": masks.sink_window(4, 100, "top-left"),
    "named chunks": masks.chunked(64, "top-left") & masks.causal("top-left") | masks.key_padding(3),
    "named documents": masks.documents(IDS, sorted=True) & masks.causal("top-left"),
    "named diffusion": masks.block_diffusion(167, 16) | (lambda b, h, i, j: j == 0),
}


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("name", SCORES)
def test_scores(name, dtype):
    check(*qkv(2, 4, 4, 333, 333, 64, dtype=dtype), SCORES[name])


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("name", MASKS)
def test_masks(name, d, dtype):
    check(*qkv(2, 4, 4, 333, 333, d, dtype=dtype), None, MASKS[name])


@pytest.mark.parametrize("nq, nk", [(129, 517), (517, 333), (64, 256)])
def test_lengths_groups_and_scales(nq, nk):
    q, k, v = qkv(2, 8, 2, nq, nk, 64)
    check(q, k, v, None, MASKS["prefix"], 0.2, True)
    check(q[:, :4], k, v, SCORES["slopes"], MASKS["causal"], None, True)


def test_masks_that_pytorch_combines():
    both = torch_flex.and_masks(MASKS["causal"], MASKS["documents"])
    one = torch_flex.or_masks(MASKS["window"], masks.key_padding(7))
    q, k, v = qkv(2, 4, 4, 333, 333, 64)
    check(q, k, v, None, both)
    check(q, k, v, None, one)


def test_head_dimensions_that_are_padded():
    q, k, v = qkv(2, 2, 2, 200, 300, 33, 7)
    o = flashc.torch.flex_attention(q, k, v, block_mask=masks.causal("top-left"))
    keep = torch.ones(200, 300, dtype=torch.bool, device="cuda").tril()
    problem = _check.Reference(q, k, v, keep).compare(o.contiguous()).problem
    assert not problem, problem


# --- BlockMask --------------------------------------------------------------------------------------------------------

def test_tables_alone():
    """For a BlockMask without a function, both FlexAttention and flashc use only its tables."""
    q, k, v = qkv(2, 4, 4, 256, 384, 64)
    counts = torch.tensor([2, 1], device="cuda", dtype=torch.int32).expand(1, 1, 2)
    indices = torch.tensor([[2, 0, 1], [1, 0, 2]], device="cuda", dtype=torch.int32).expand(1, 1, 2, 3)
    block_mask = torch_flex.BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=128)
    o = flashc.torch.flex_attention(q, k, v, block_mask=block_mask)
    i, j = torch.arange(256, device="cuda")[:, None] // 128, torch.arange(384, device="cuda")[None] // 128
    keep = ((i == 0) & (j != 1)) | ((i == 1) & (j == 1))
    problem = _check.Reference(q, k, v, keep).compare(o).problem
    assert not problem, problem


def test_block_mask_that_keeps_everything():
    q, k, v = qkv(2, 4, 4, 256, 384, 64)
    want = flashc.attention(q, k, v)
    everything = torch_flex.create_block_mask(torch_flex.noop_mask, None, None, 256, 384, device="cuda")
    assert (flashc.torch.flex_attention(q, k, v, block_mask=everything) - want).abs().max() <= 2e-2
    assert torch.equal(flashc.torch.flex_attention(q, k, v), want)


def test_tables_that_follow_from_the_function_are_not_read():
    """The BlockMask gives the same kernel as the function alone."""
    q, k, v = qkv(1, 2, 2, 256, 256, 64)
    block_mask = torch_flex.create_block_mask(MASKS["causal"], None, None, 256, 256, device="cuda")
    want = flashc.torch.flex_attention(q, k, v, block_mask=MASKS["causal"])
    count = flashc.statistics().compilations
    assert torch.equal(flashc.torch.flex_attention(q, k, v, block_mask=block_mask), want)
    assert flashc.statistics().compilations == count
    block_mask.full_kv_num_blocks.zero_()
    i, j = torch.arange(256, device="cuda")[:, None], torch.arange(256, device="cuda")
    problem = _check.Reference(q, k, v, (j <= i) & (i // 128 == j // 128)).compare(
        flashc.torch.flex_attention(q, k, v, block_mask=block_mask)).problem
    assert not problem, problem


@pytest.mark.parametrize("size", [(128, 128), (128, 64), (256, 128)])
@pytest.mark.parametrize("outer", [(1, 1), (2, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize("has_full", [False, True])
def test_tables_and_a_function(size, outer, has_full):
    """Blocks that the tables do not list are skipped, full blocks are not masked, and partial blocks are masked."""
    q, k, v = qkv(2, 4, 4, 500, 700, 64)
    shape = (*outer, -(-500 // size[0]), -(-700 // size[1]))
    kinds = torch.randint(0, 3 if has_full else 2, shape, device="cuda")

    def lists(blocks):
        blocks = blocks.to(torch.int32)
        return blocks.sum(-1, dtype=torch.int32), torch.argsort(blocks, dim=-1, descending=True).to(torch.int32)

    def mask_mod(b, h, i, j):
        return (i + j + h) % 3 > 0
    block_mask = torch_flex.BlockMask.from_kv_blocks(*lists(kinds == 1), *(lists(kinds == 2) if has_full else ()),
                                                     BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(500, 700))
    place = positions(2, 4, 500, 700)
    b, h, i, j = place
    kind = kinds.expand(2, 4, *shape[2:])[b, h, i // size[0], j // size[1]]
    keep = (kind == 2) | ((kind == 1) & mask_mod(*place))
    o, lse = flashc.torch.flex_attention(q, k, v, block_mask=block_mask, return_lse=True)
    problem = _check.Reference(q, k, v, keep).compare(o, lse).problem
    assert not problem, problem
    again = torch.compile(lambda q, k, v: flashc.torch.flex_attention(q, k, v, block_mask=block_mask))(q, k, v)
    torch.testing.assert_close(again, o, rtol=1e-2, atol=4e-3)


def test_tables_in_a_cuda_graph():
    q, k, v = qkv(1, 2, 2, 256, 256, 64)
    block_mask = torch_flex.create_block_mask(MASKS["causal"], None, None, 256, 256, device="cuda")
    want = flashc.torch.flex_attention(q, k, v, block_mask=block_mask)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashc.torch.flex_attention(q, k, v, block_mask=block_mask)
    graph.replay()
    assert torch.equal(o, want)


def test_keys_of_one_batch():
    q, k, v = qkv(3, 2, 2, 200, 200, 64)
    o = flashc.torch.flex_attention(q, k[:1], v[:1], block_mask=masks.causal("top-left"))
    want = flashc.torch.flex_attention(q, k[:1].expand_as(k), v[:1].expand_as(v), block_mask=masks.causal("top-left"))
    assert torch.equal(o, want)


# --- Results, refusals, torch.compile ---------------------------------------------------------------------------------

def test_results():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    o, lse = flashc.torch.flex_attention(q, k, v, return_lse=True, kernel_options={"BLOCK_M": 64})
    # Without the log-sum-exp another kernel runs, which adds up rows in another order.
    torch.testing.assert_close(flashc.torch.flex_attention(q, k, v), o, rtol=1e-2, atol=4e-3)
    if hasattr(torch_flex, "AuxRequest"):
        again, aux = flashc.torch.flex_attention(q, k, v, return_aux=torch_flex.AuxRequest(lse=True))
        assert isinstance(aux, torch_flex.AuxOutput) and torch.equal(again, o) and torch.equal(aux.lse, lse)
        with pytest.raises(flashc.ArgumentError, match="max_scores"):
            flashc.torch.flex_attention(q, k, v, return_aux=torch_flex.AuxRequest(max_scores=True))


def test_rows_without_keys():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    o, lse = flashc.torch.flex_attention(q, k, v, block_mask=lambda b, h, i, j: (j < i) & (i % 7 != 0), return_lse=True)
    dead = torch.arange(100, device="cuda") % 7 == 0
    assert not o[:, :, dead].any() and (lse[:, :, dead] == -torch.inf).all() and torch.isfinite(lse[:, :, ~dead]).all()


def test_refusals():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    other = torch_flex.create_block_mask(MASKS["causal"], None, None, 128, 128, device="cuda")
    with pytest.raises(flashc.ArgumentError, match="made for 100 queries and 100 keys, got one for 128 and 128"):
        flashc.torch.flex_attention(q, k, v, block_mask=other)
    with pytest.raises(flashc.UnsupportedTypeError, match="bf16 or f16"):
        flashc.torch.flex_attention(q.float(), k.float(), v.float())


def keeps_causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def test_torch_compile():
    q, k, v = qkv(1, 2, 2, 200, 200, 64)
    width = 50
    whole = torch.compile(lambda q, k, v: flashc.torch.flex_attention(q, k, v, block_mask=keeps_causal) * 2,
                          fullgraph=True)
    assert torch.equal(whole(q, k, v), flashc.torch.flex_attention(q, k, v, block_mask=keeps_causal) * 2)
    broken = torch.compile(lambda q, k, v: flashc.torch.flex_attention(
        q, k, v, block_mask=lambda b, h, i, j: (j <= i) & (i - j < width)))
    assert torch.equal(broken(q, k, v), flashc.torch.flex_attention(
        q, k, v, block_mask=lambda b, h, i, j: (j <= i) & (i - j < width)))
