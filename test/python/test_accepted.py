"""Arguments that other libraries accept: wide integers, lists, floats of 16 and 64 bits, shapes that broadcast."""
import numpy as np
import pytest

import flashc
from appended import make_angles, rotate
from flashc import masks

torch = pytest.importorskip("torch")


def rand(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def same(got, want, bound=0.0):
    for x, y in zip(got, want):
        assert np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64)).max() <= bound


# --- Lengths, tables, offsets -----------------------------------------------------------------------------------------

INTEGERS = {"i64": lambda x: np.array(x), "u8": lambda x: np.array(x, np.uint8), "list": lambda x: x,
            "tuple": lambda x: tuple(map(tuple, x)) if isinstance(x[0], list) else tuple(x)}


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_of_decode(kind):
    make, q, c = INTEGERS[kind], rand(2, 1, 2, 16), rand(4, 16, 2, 16)
    want = flashc.decode(q, c, c, np.array([20, 3], np.int32), np.array([[1, 2], [3, 0]], np.int32))
    same([flashc.decode(q, c, c, make([20, 3]), make([[1, 2], [3, 0]]))], [want])


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_of_append_kv(kind):
    make, new = INTEGERS[kind], rand(2, 3, 2, 16)
    caches = [[np.zeros((4, 16, 2, 16), np.float32) for _ in "kv"] for _ in range(2)]
    for change, (k, v) in zip((lambda x: np.array(x, np.int32), make), caches):
        flashc.append_kv(k, v, new, new, change([[1, 2], [3, 0]]), change([15, 3]), counts=change([3, 2]))
    same(caches[0], caches[1])
    assert caches[0][0].any()


def test_integers_of_varlen_attention():
    q, offsets = rand(7, 2, 16), np.array([0, 3, 7], np.int32)
    want = flashc.varlen_attention(q, q, q, offsets, causal=True)
    for make in INTEGERS.values():
        if make([0]) is not None and not isinstance(make([0]), np.ndarray):
            same([flashc.varlen_attention(q, q, q, make([0, 3, 7]), causal=True)], [want])
    same([flashc.varlen_attention(q, q, q, [0, 3, 7], [0, 3, 7], causal=True)], [want])


@pytest.mark.parametrize("mask", [
    lambda make: masks.key_padding(make([5, 9])), lambda make: masks.prefix_lm(make([4, 2]), "top-left"),
    lambda make: masks.documents(make([0] * 4 + [1] * 7), sorted=True),
    lambda make: masks.documents(make([0] * 4 + [1] * 7), make([1] * 4 + [0] * 7)),
    lambda make: masks.packed(make([0, 4, 11])), lambda make: masks.packed(make([[0, 4, 11], [0, 9, 11]]))])
def test_lists_of_masks(mask):
    q = rand(2, 1, 11, 16)
    of_list, of_array = mask(lambda x: x), mask(lambda x: np.array(x, np.int64))
    same([flashc.attention(q, q, q, mask=of_list)], [flashc.attention(q, q, q, mask=of_array)])
    i, j = np.arange(11)[:, None], np.arange(11)
    for b in range(2):
        assert (of_list(b, 0, i, j) == of_array(b, 0, i, j)).all()


def test_refused_integers():
    q, c = rand(1, 1, 2, 16), rand(4, 16, 2, 16)
    for lengths, table, error, words in (([20.5], [[1, 2]], flashc.UnsupportedTypeError,
                                          "lengths to be an array or a list of integers"),
                                         ([20], [[1, 2], [3]], flashc.ArgumentError,
                                          "block_table to be a list of lists of one length, got lengths 2 and 1"),
                                         ([2**40], [[1, 2]], flashc.ArgumentError, "lengths of integers of 32 bits"),
                                         (np.array([2**40]), [[1, 2]], flashc.ArgumentError,
                                          "lengths of integers of 32 bits, got 1099511627776"),
                                         (np.array([20.0]), [[1, 2]], flashc.UnsupportedTypeError,
                                          "lengths of int32, got f64")):
        with pytest.raises(error, match=words):
            flashc.decode(q, c, c, lengths, table)
    with pytest.raises(flashc.UnsupportedTypeError, match="lengths to be an array or a list of integers"):
        masks.key_padding([1.5])


# --- Floats -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types_of_sinks(dtype):
    """The gradient of sinks has the type of the sinks."""
    q, sinks = torch.randn(2, 2, 9, 16), torch.randn(2).to(dtype)
    want_sinks, sinks = sinks.float().requires_grad_(), sinks.requires_grad_()
    o, want = (flashc.attention(q, q, q, sinks=x) for x in (sinks, want_sinks))
    assert torch.equal(o, want)
    for x, y in ((o, sinks), (want, want_sinks)):
        x.square().sum().backward()
    assert sinks.grad.dtype == dtype and torch.equal(sinks.grad, want_sinks.grad.to(dtype))
    o, lse = flashc.attention(q, q, q, sinks=sinks.detach(), return_lse=True)
    assert flashc.attention_backward(q, q, q, o, lse, q, sinks=sinks.detach())[3].dtype == dtype


def test_sinks_of_f32_with_arrays_of_f64():
    q, sinks = np.random.default_rng(1).standard_normal((1, 2, 9, 16)), rand(2)
    same([flashc.attention(q, q, q, sinks=sinks)], [flashc.attention(q, q, q, sinks=sinks.astype(np.float64))])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types_of_tables(dtype):
    """Tables are read in their own type, and their gradients have that type."""
    q, table = torch.randn(1, 2, 9, 16), torch.randn(17).to(dtype)
    results = []
    for t in (table.clone().requires_grad_(), table.float().requires_grad_()):
        o = flashc.attention(q, q, q, score=lambda s, b, h, i, j: s + t[i - j + 8])
        o.square().sum().backward()
        results.append((o.detach(), t.grad))
    assert torch.equal(results[0][0], results[1][0]) and results[0][1].dtype == dtype
    assert torch.equal(results[0][1].float(), results[1][1].to(dtype).float())


def test_a_mask_of_f64():
    q, mask = rand(1, 2, 9, 16), np.random.default_rng(2).standard_normal((9, 9))
    same([flashc.attention(q, q, q, mask=mask)], [flashc.attention(q, q, q, mask=mask.astype(np.float32))])


@pytest.mark.filterwarnings("ignore:.*not a double precision")
def test_gradcheck_of_a_table():
    """Runs PyTorch's gradcheck for q, k, v, a table, a bias and a scalar in f64, with its default tolerances."""
    def run(q, table, bias, scale):
        return flashc.attention(q, q, q, mask=bias, score=lambda s, b, h, i, j: s*scale + table[i//2 - j//2 + 2, h],
                                return_lse=True)

    inputs = [
        torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in ((1, 2, 5, 8), (5, 2), (2, 5, 5), ())
    ]
    assert torch.autograd.gradcheck(run, inputs)


def test_refused_tables():
    q, table = np.zeros((1, 1, 5, 8)), rand(9)
    with pytest.raises(flashc.UnsupportedTypeError, match="captured array of f64 or integers where q is f64, got f32"):
        flashc.attention(q, q, q, score=lambda s, b, h, i, j: s + table[j])


# --- Caches -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_rotary_of_decode(layout, interleaved):
    """Gives the same as rotating q before the call. A query whose position has no angles is not rotated."""
    rng = np.random.default_rng(3)
    q, c, lengths = rand(3, 4, 2, 16), rand(3, 20, 2, 16), np.array([20, 3, 0], np.int32)
    cos, sin = (x.astype(np.float32) for x in make_angles(rng, 20, 5))
    turned = q.copy()
    for b, t in np.ndindex(3, 4):
        if lengths[b] - 4 + t >= 0:
            turned[b, t] = rotate(q[b, t].astype(np.float64), lengths[b] - 4 + t, cos, sin, interleaved)
    in_layout = (lambda x: x) if layout == "bshd" else (lambda x: x.swapaxes(1, 2))
    got, want = (flashc.decode(in_layout(x), in_layout(c), in_layout(c), lengths, layout=layout, rotary=y)
                 for x, y in ((q, (cos, sin, interleaved)), (turned, None)))
    same([got], [want], 2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rotary_next_to_append_kv(dtype):
    """Queries are rotated as keys are, from the position where a sequence begins. D is not a multiple of 4."""
    rng = np.random.default_rng(4)
    cos, sin = (x.astype(np.float32) for x in make_angles(rng, 30, 3))
    k, q = rand(2, 3, 1, 10).astype(dtype), rand(2, 3, 4, 10).astype(dtype)
    positions, leftpad, cache = np.array([7, 20], np.int32), [2, 0], np.zeros((2, 30, 1, 10), dtype)
    got = flashc.append_kv(cache, cache.copy(), k, k, None, positions, rotary=(cos, sin, False), leftpad=leftpad, q=q)
    for b, t in np.ndindex(2, 3):
        for x, want in ((cache[b, positions[b] + t], k[b, t]), (got[b, t], q[b, t])):
            turned = rotate(want.astype(np.float64), positions[b] + t - leftpad[b], cos, sin, False)
            assert np.abs(x - turned).max() < (1e-6 if dtype == np.float32 else 3e-3)
    assert np.array_equal(q, rand(2, 3, 4, 10).astype(dtype)) and (cache[0, :7] == 0).all()


def test_rows_of_caches():
    """cache_batch_idx selects the rows that are read and written, in caches with more rows than there are sequences."""
    q, c, rows, lengths = rand(2, 1, 2, 16), rand(5, 20, 1, 16), [3, 0], [20, 7]
    same([flashc.decode(q, c, c, lengths, cache_batch_idx=rows)], [flashc.decode(q, c[rows], c[rows], lengths)], 1e-6)
    new, k, v = rand(2, 3, 1, 16), c.copy(), c.copy()
    flashc.append_kv(k, v, new, 2 * new, positions=[4, 18], cache_batch_idx=np.array(rows))
    want = c.copy()
    want[3, 4:7], want[0, 18:] = new[0], new[1, :2]
    assert np.array_equal(k, want)
    with pytest.raises(flashc.ArgumentError, match="cache_batch_idx without a block_table"):
        flashc.decode(q, c, c, lengths, [[0], [1]], cache_batch_idx=rows)
    with pytest.raises(flashc.ArgumentError, match=r"cache_batch_idx of shape \[B\], got \(1, 2\)"):
        flashc.decode(q, c, c, lengths, cache_batch_idx=[rows])


@pytest.mark.parametrize("keywords", [{}, dict(leftpad=[1, 0])])
def test_rows_that_no_cache_has(keywords):
    q, cache = np.zeros((2, 1, 2, 16), np.float32), np.zeros((4, 16, 2, 16), np.float32)
    for rows, number in (([4, 1], 4), (np.array([0, -1]), -1)):
        with pytest.raises(flashc.ArgumentError, match=f"expected cache_batch_idx of 0 to 3, got {number} for"):
            flashc.decode(q, cache, cache, [9, 5], cache_batch_idx=rows, **keywords)
    with pytest.raises(flashc.ArgumentError, match="expected leftpad of at least 0, got -1 for sequence 1"):
        flashc.decode(q, cache[:2], cache[:2], [9, 5], leftpad=[0, -1])
    for bad in ((3, [9, 5]), (q, None)):
        with pytest.raises(flashc.UnsupportedTypeError, match="(q|lengths): expected an array"):
            flashc.decode(bad[0], cache[:2], cache[:2], bad[1], rotary=(q[0, 0], q[0, 0], True))


def test_left_padding_of_decode():
    """A sequence begins at a row of its own, from which its mask and score count positions."""
    q, c, lengths, leftpad = rand(2, 2, 2, 16), rand(2, 20, 1, 16), [20, 9], [5, 0]
    cos, sin = (x.astype(np.float32) for x in make_angles(np.random.default_rng(5), 20, 8))
    slopes = rand(20)
    keywords = dict(rotary=(cos, sin, True), mask=lambda b, h, i, j: (i - j + flashc.ops.key_length()) % 3 != 1,
                    score=lambda s, b, h, i, j: s * slopes[j] + i)
    got = flashc.decode(q, c, c, lengths, leftpad=leftpad, **keywords)
    for b in range(2):
        own = c[b:b + 1, leftpad[b]:]
        same([got[b:b + 1]], [flashc.decode(q[b:b + 1], own, own, [lengths[b] - leftpad[b]], **keywords)], 2e-6)


SPECIAL = [
    0.0, -0.0, 2.0**-10, 1.5 * 2.0**-9, 2.5 * 2.0**-9, 2.0**-6, 0.99 * 2.0**-6, 17.0, 18.0, 19.0, 447.0, 448.0, 460.0,
    465.0, 1e9, -1e9, np.inf, -np.inf, 126.5, 127.5, -127.5, -128.5, 0.5, 1.5, 2.5, -0.5
]


@pytest.mark.parametrize("kind", [torch.int8, getattr(torch, "float8_e4m3fn", None)])
@pytest.mark.parametrize("form", ["one", "heads", "pages"])
def test_append_kv_to_caches_of_8_bits(kind, form):
    """Values are rounded to the nearest and saturated, also after a rotation, and decode reads what was written."""
    if kind is None:
        pytest.skip("PyTorch has no float8_e4m3fn")
    new = torch.randn(2, 3, 2, 32)
    new[0, 0, 0, :len(SPECIAL)] = torch.tensor(SPECIAL)
    shape = {"one": (), "heads": (2,), "pages": (6, 2)}[form]
    k_scale, v_scale = (torch.rand(shape) * 0.2 + 0.05 for _ in "kv") if form != "one" else (torch.ones(
        ()), torch.ones(()))
    k, v = (torch.zeros(6, 16, 2, 32).to(kind) for _ in "kv")
    table, positions = torch.tensor([[1, 4], [3, 0]], dtype=torch.int32), torch.tensor([15, 3])
    flashc.append_kv(k, v, new, 2 * new, table, positions, k_scale=k_scale, v_scale=v_scale)
    for cache, x, scale in ((k, new, k_scale), (v, 2 * new, v_scale)):
        for b, t in np.ndindex(2, 3):
            page, row = table[b, (positions[b] + t) // 16], (positions[b] + t) % 16
            wanted = x[b, t] / (scale if form == "one" else (scale if form == "heads" else scale[page])[:, None])
            if kind == torch.int8:
                assert torch.equal(cache[page, row], wanted.clamp(-128, 127).round().to(torch.int8))
            else:
                got, want = (y.view(torch.uint8) for y in (cache[page, row], wanted.clamp(-448, 448).to(kind)))
                assert torch.equal(got, want)
    assert (k.view(torch.uint8) != 0).sum() <= 2 * 3 * 2 * 32
    angles = torch.ones(40, 4), torch.zeros(40, 4)
    other = [torch.zeros(6, 16, 2, 32).to(kind) for _ in "kv"]
    flashc.append_kv(*other, new, 2 * new, table, positions, rotary=(*angles, True), k_scale=k_scale, v_scale=v_scale)
    assert torch.equal(other[0].float(), k.float())  # even a rotation by zero may turn -0 into 0


def test_refusals_of_appends():
    k, new, scale = torch.zeros(2, 16, 2, 32, dtype=torch.int8), torch.zeros(2, 1, 2, 32), torch.ones(())
    for keywords, words in ((dict(), "expected k_scale and v_scale for caches of int8"),
                            (dict(k_scale=scale, v_scale=torch.ones(2)), "k_scale and v_scale of one shape"),
                            (dict(k_scale=torch.ones(2, 1), v_scale=torch.ones(2, 1)), "k_scale of shape"),
                            (dict(k_scale=scale, v_scale=scale, q=new), "rotary together with q")):
        with pytest.raises(flashc.ArgumentError, match=words):
            flashc.append_kv(k, k.clone(), new, new, positions=[0, 1], **keywords)
    with pytest.raises(flashc.ArgumentError, match="no k_scale and v_scale for caches of f32"):
        flashc.append_kv(k.float(), k.float(), new, new, positions=[0, 1], k_scale=scale, v_scale=scale)


# --- Parts, gradients -------------------------------------------------------------------------------------------------

def test_lists_of_parts():
    parts = [(rand(1, 2, 8 + n, 64)[:, :, :8].copy(), rand(1, 2, 8 + n)[:, :, :8].copy()) for n in range(3)]
    want = flashc.merge_states(*(np.stack(x) for x in zip(*parts)))
    same(flashc.merge_states(*(list(x) for x in zip(*parts))), want)
    same(flashc.merge_states(*(tuple(map(torch.tensor, x)) for x in zip(*parts))), want)
    for bad, words in (([], "one part at least"), ([parts[0][0], parts[1][0][:, :1]], "parts of one shape in o")):
        with pytest.raises(flashc.ArgumentError, match=words):
            flashc.merge_states(bad, [])


@pytest.mark.parametrize("mask",
                         [lambda b, h, i, j: j < 0, lambda b, h, i, j: (j < i) & (j > i), lambda b, h, i, j: False])
def test_gradients_of_a_mask_that_keeps_nothing(mask):
    q = torch.randn(1, 2, 70, 16, requires_grad=True)
    o, lse = flashc.attention(q, q, q, mask=mask, return_lse=True)
    o.sum().backward()
    assert not o.any() and bool((lse == -np.inf).all()) and not q.grad.any()


def test_deterministic_is_an_argument(monkeypatch):
    """`deterministic` matters where gradients are recorded. For None, PyTorch's setting during the backward pass
    decides."""
    from flashc import _torch_gradient
    asked, backward_of = [], _torch_gradient.backward_of
    monkeypatch.setattr(_torch_gradient, "backward_of",
                        lambda *x: asked.append(x[1].deterministic) or backward_of(*x))
    q = torch.randn(7, 2, 16, requires_grad=True)
    for deterministic in (True, False, None):
        flashc.attention(q[None], q[None], q[None], deterministic=deterministic).sum().backward()
        flashc.varlen_attention(q, q, q, [0, 3, 7], deterministic=deterministic).sum().backward()
    o = flashc.attention(q[None], q[None], q[None])
    torch.use_deterministic_algorithms(True)
    o.sum().backward()
    torch.use_deterministic_algorithms(False)
    assert asked == [True, True, False, False, False, False, True]
