"""torch.compile of flashc's functions on a GPU. Skipped where there is no GPU.

Numbers follow the rule of docs/checking.md: the error against float32 attention is at most twice the error of plain
attention in the type of the inputs. Outputs are NaN before the launch, and so is the memory after them."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import (  # noqa: E402, F401
    F32, assert_right, bottom_right, fresh_numbers, positions, qkv, random, sdpa, top_left)


def sees_even_distance(b, h, i, j):
    return (i - j) % 2 == 0


TABLE = None


def adds_table(s, b, h, i, j):
    return s + TABLE[h, j]


def compiled(function, **keywords):
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, **keywords)


def test_compile_of_attention():
    q, k, v = qkv(2, 4, 4, 200, 200, 64)
    function = compiled(lambda q, k, v: flashc.attention(q * 2, k, v, causal=True, return_lse=True)[0] + 1)
    want = flashc.attention(q * 2, k, v, causal=True, return_lse=True)[0] + 1
    assert torch.equal(function(q, k, v), want)


def test_compile_of_sdpa_with_a_projection():
    x, weight = random(2, 256, 256), random(256, 768) * 0.06

    def block(x):
        q, k, v = (x @ weight).view(2, -1, 3, 4, 64).unbind(2)
        o = sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return o.transpose(1, 2).reshape(2, -1, 256).relu()

    want = block(x)
    assert (compiled(block)(x).float() - want.float()).abs().max() < 0.05


def test_compile_with_dynamic_shapes():
    function = compiled(lambda q, k, v: sdpa(q, k, v, is_causal=True), dynamic=True)
    for nq, nk in ((128, 128), (200, 200), (96, 160), (160, 96)):
        q, k, v = qkv(2, 2, 2, nq, nk, 64)
        assert_right(function(q, k, v), q, k, v, keep=top_left(nq, nk))


def test_compile_with_masks():
    q, k, v = qkv(2, 4, 4, 100, 100, 64)
    keep = torch.rand(2, 1, 100, 100, device="cuda") > 0.3
    function = compiled(lambda q, k, v, keep: sdpa(q, k, v, attn_mask=~keep))
    assert_right(function(q, k, v, keep), q, k, v, keep=~keep)
    bias = torch.randn(4, 1, 100, device="cuda")
    function = compiled(lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias * 2))
    assert_right(function(q, k, v, bias), q, k, v, score=lambda s: s + (bias * 2).to(s.dtype))


def test_compile_with_functions():
    global TABLE
    q, k, v = qkv(2, 4, 4, 100, 100, 64)
    i, j = positions(100, 100)
    TABLE = torch.randn(4, 100, device="cuda")
    function = compiled(lambda q, k, v: flashc.attention(q, k, v, mask=sees_even_distance, score=adds_table))
    for _ in range(2):
        assert_right(function(q, k, v), q, k, v, keep=(i - j) % 2 == 0,
                     score=lambda s: s + TABLE[:, None, :].to(s.dtype))
        TABLE = torch.randn(4, 100, device="cuda")


def test_compile_does_not_mix_up_closures():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    torch.compiler.reset()
    function = torch.compile(lambda q, k, v, score: flashc.attention(q, k, v, score=score))
    for factor in (0.5, 2.0):
        assert_right(function(q, k, v, lambda s, b, h, i, j: s * factor), q, k, v, score=lambda s: s * factor)


def test_compile_into_cuda_graphs():
    function = compiled(lambda q, k, v: flashc.attention(q, k, v) * 2, mode="reduce-overhead")
    for _ in range(4):
        q, k, v = qkv(2, 2, 2, 128, 128, 64)
        o = function(q, k, v).clone()
        assert torch.equal(o, flashc.attention(q, k, v) * 2)


def test_the_op_runs_the_kernel_that_its_result_needs(no_disk):
    q, k, v = qkv(1, 2, 2, 100, 130, 64)
    arguments = (q, k, v, None, None, None, True, None, None, 0.125, False, "bhsd")
    o, none = torch.ops.flashc.attention.default(*arguments, False)
    assert none.shape == (0,) and none.dtype == F32
    assert_right(o, q, k, v, keep=bottom_right(100, 130))
    flashc.attention(q, k, v, scale=0.125, causal=True)
    flashc.attention(q, k, v, scale=0.125)
    assert flashc.statistics().compilations == 2
    o, lse = torch.ops.flashc.attention.default(*arguments, True)
    assert_right(o, q, k, v, lse, keep=bottom_right(100, 130))
    assert flashc.statistics().compilations == 3


def test_the_op_is_registered_as_pytorch_asks():
    q, k, v = qkv(1, 4, 2, 64, 64, 64)
    for return_lse in (False, True):
        arguments = (q, k, v, None, None, None, True, None, None, 0.125, True, "bhsd", return_lse)
        torch.library.opcheck(torch.ops.flashc.attention.default, arguments,
                              test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def test_fake_tensors_have_the_shapes_and_strides_of_results():
    from torch._subclasses.fake_tensor import FakeTensorMode
    q, k, v = qkv(2, 4, 2, 70, 90, 64, 128)
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    for layout, real in (("bhsd", (q, k, v)), ("bshd", swapped), ("bhsd", [x.transpose(1, 2) for x in swapped])):
        want = flashc.attention(*real, enable_gqa=True, return_lse=True, layout=layout)
        with FakeTensorMode() as mode:
            fake = [mode.from_tensor(x) for x in real]
            got = flashc.attention(*fake, enable_gqa=True, return_lse=True, layout=layout)
        for x, y in zip(got, want):
            assert (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype)
