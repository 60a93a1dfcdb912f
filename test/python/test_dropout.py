"""Dropout on the CPU: flashc.dropout_mask against known numbers and statistics, the weights that attention drops
against that mask, outputs and gradients against the formula in f64, and refusals."""
import numpy as np
import pytest

import flashc
from flashc import ops
from flashc._dropout import _philox

import reference as book
from reference import inputs

PHILOX = np.array([-123456789123456789, 987654321987654321], np.int64)


@pytest.mark.parametrize("counter, key, want", [
    ((0, 0, 0, 0), (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
    ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
     (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1)),
])
def test_philox(counter, key, want):
    """Compares with the known answers of Random123, the library of Philox's authors."""
    found = _philox([np.array([x], np.uint64) for x in counter], key)
    assert tuple(x.item() for x in found) == want


def attention_mask(shape, p, philox, dtype=np.float32):
    """Returns the mask that a kernel applies. Probabilities are 1/Nk, and the values are columns of the identity."""
    b, h, nq, nk = shape
    q, k = np.zeros((b, h, nq, 8), dtype), np.zeros((b, h, nk, 8), dtype)
    columns = []
    for begin in range(0, nk, 64):
        v = np.zeros((b, h, nk, 64), dtype)
        v[:, :, np.arange(begin, min(begin + 64, nk)), np.arange(min(64, nk - begin))] = 1
        columns.append(flashc.attention(q, k, v, dropout_p=p, philox=philox)[..., :min(64, nk - begin)])
    o = np.concatenate(columns, -1)
    rate = np.floor(p * 256 + 0.5) / 256
    kept = o != 0
    assert np.allclose(o[kept], 1 / nk / (1 - rate), rtol=1e-3)
    return kept


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 65, 63), (1, 2, 33, 131)])
@pytest.mark.parametrize("p", [1 / 256, 0.1, 0.5, 0.9])
def test_mask(shape, p):
    assert np.array_equal(attention_mask(shape, p, PHILOX), flashc.dropout_mask(shape, p, PHILOX))


def test_depends_on_nothing_else():
    """The mask does not depend on the batch size, the number of heads or the lengths, but on every bit of the seed and
    the offset."""
    large = flashc.dropout_mask((3, 4, 70, 90), 0.3, PHILOX)
    assert np.array_equal(flashc.dropout_mask((2, 3, 41, 33), 0.3, PHILOX), large[:2, :3, :41, :33])
    assert np.array_equal(flashc.dropout_mask((3, 4, 70, 90), 0.3, tuple(PHILOX)), large)
    for number in (0, 1):
        for bit in (0, 31, 32, 62):
            other = PHILOX.copy()
            other[number] ^= 1 << bit
            assert (flashc.dropout_mask((3, 4, 70, 90), 0.3, other) != large).mean() > 0.35


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_statistics(p):
    """Checks the rate, and that elements are independent of neighbours along rows and columns, of other heads, batches
    and offsets, and of the other bytes of one Philox call. With this seed, about 60 statistics are all within 4.5
    standard deviations."""
    rate = round(p * 256) / 256
    mask = flashc.dropout_mask((2, 3, 256, 512), p, (20261124, 0))
    dropped = 1.0 - mask
    n = dropped.size
    deviation = (rate * (1 - rate))**0.5
    assert abs(dropped.mean() - rate) < 4.5 * deviation / n**0.5
    for axis in range(4):
        others = tuple(x for x in range(4) if x != axis)
        each = dropped.mean(axis=others)
        chi = (((each - rate) / (deviation / (n / len(each))**0.5))**2).sum()
        assert abs(chi - len(each)) < 4.5 * (2 * len(each))**0.5 + 4.5, axis

    def correlation(x, y):
        return ((x - rate) * (y - rate)).mean() / deviation**2

    for distance in (1, 2, 4, 7, 8, 16, 31, 32, 64):
        for x, y in ((dropped[..., distance:], dropped[..., :-distance]),
                     (dropped[..., distance:, :], dropped[..., :-distance, :])):
            assert abs(correlation(x, y)) < 4.5 / x.size**0.5, distance
    for x, y in ((dropped[0], dropped[1]), (dropped[:, 0], dropped[:, 1]), (dropped[:, 1], dropped[:, 2])):
        assert abs(correlation(x, y)) < 4.5 / x.size**0.5
    later = 1.0 - flashc.dropout_mask((2, 3, 256, 512), p, (20261124, 1))
    assert abs(correlation(dropped, later)) < 4.5 / n**0.5
    # The same calls of Philox make the bytes of all elements in a block of 16 x 32. These elements must be
    # uncorrelated.
    blocks = dropped.reshape(6, 16, 16, 16, 32).transpose(0, 1, 3, 2, 4).reshape(-1, 16 * 32)[:, ::8]
    count = len(blocks)
    pairs = (blocks - rate).T @ (blocks - rate) / count / deviation**2
    assert np.abs(pairs - np.diag(np.diag(pairs))).max() < 5.5 / count**0.5


def reference(q, k, v, kept, rate, do=None, dlse=None, keep=None, sinks=None):
    """Returns o in f64, or the gradients if `do` is given."""
    factors, keeps = kept / (1 - rate), None if keep is None else lambda *_: keep
    o, lse = book.attention(q, k, v, keeps, sinks=sinks, factors=factors)
    return o if do is None else book.attention_backward(q, k, v, o, lse, do, dlse, keeps, factors=factors)


def causal(nq, nk):
    return np.arange(nk)[None] <= np.arange(nq)[:, None] + nk - nq


@pytest.mark.parametrize("nq, nk", [(33, 47), (65, 63), (1, 1), (40, 17)])
@pytest.mark.parametrize("dtype, limit", [("float32", 1e-5), ("float16", 3e-3)])
def test_numbers(rng, nq, nk, dtype, limit):
    """Checks o, the log-sum-exp, which dropout does not change, and gradients, with a causal mask, grouped heads and
    sinks."""
    q, k, v = inputs(rng, 2, 4, 2, nq, nk, 8, 24, dtype)
    sinks = rng.standard_normal(4).astype(np.float32)
    do, dlse = rng.standard_normal((2, 4, nq, 24)).astype(dtype), rng.standard_normal((2, 4, nq)).astype(np.float32)
    kept, rate = flashc.dropout_mask((2, 4, nq, nk), 0.2, PHILOX), 51 / 256
    keywords = {"causal": True, "sinks": sinks, "enable_gqa": True}
    dropping = {"dropout_p": 0.2, "philox": PHILOX, **keywords}
    o, lse = flashc.attention(q, k, v, return_lse=True, **dropping)
    want = reference(q, k, v, kept, rate, keep=causal(nq, nk), sinks=sinks)
    assert np.abs(o - want).max() <= limit * (1 + np.abs(want).max())
    assert np.array_equal(lse, flashc.attention(q, k, v, return_lse=True, **keywords)[1])
    found = flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, **dropping)
    want = reference(q, k, v, kept, rate, do, dlse, causal(nq, nk), sinks)
    for name, x, y in zip(("dq", "dk", "dv"), found, want):
        assert np.abs(x - y).max() <= 4 * limit * (1 + np.abs(y).max()), name


def test_gradients_against_differences(rng):
    """Compares gradients in f64 with difference quotients of the forward pass itself, with a score and a mask."""
    arrays = [x.astype(np.float64) for x in inputs(rng, 1, 2, 1, 5, 6, 4, 3, np.float32)]
    do, dlse = rng.standard_normal((1, 2, 5, 3)), rng.standard_normal((1, 2, 5))
    keywords = {"mask": lambda b, h, i, j: j != i, "score": lambda s, b, h, i, j: 2.0 * ops.tanh(s / 2.0),
                "enable_gqa": True, "dropout_p": 0.4, "philox": PHILOX}

    def total():
        o, lse = flashc.attention(*arrays, return_lse=True, **keywords)
        return (o * do).sum() + (lse * dlse).sum()

    o, lse = flashc.attention(*arrays, return_lse=True, **keywords)
    for x, found in zip(arrays, flashc.attention_backward(*arrays, o, lse, do, dlse=dlse, **keywords)):
        want = book.differences(total, x)
        assert (abs(found - want) <= 1e-6 * (1 + abs(want))).all()


def test_packed_sequences(rng):
    """In packed sequences, the mask depends on the position in the whole array."""
    q, k, v = inputs(rng, 1, 2, 2, 40, 40, 8, 8, np.float32)
    offsets = np.array([0, 7, 7, 40], np.int32)
    owner = np.searchsorted(offsets[1:], np.arange(40), side="right")
    o = flashc.varlen_attention(*(x[0].swapaxes(0, 1) for x in (q, k, v)), offsets, dropout_p=0.25, philox=PHILOX)
    want = reference(q, k, v, flashc.dropout_mask((1, 2, 40, 40), 0.25, PHILOX), 0.25, keep=owner[:, None] == owner)
    assert np.abs(o.swapaxes(0, 1) - want[0]).max() <= 1e-5 * (1 + np.abs(want).max())


def test_torch(rng):
    """Seeds come from PyTorch's generator unless they are given. The backward pass uses the seeds of the forward
    pass."""
    torch = pytest.importorskip("torch")
    q, k, v = (torch.tensor(x) for x in inputs(rng, 1, 2, 2, 9, 11, 8, 8, np.float32))
    torch.manual_seed(7)
    first, second = (flashc.attention(q, k, v, dropout_p=0.5) for _ in range(2))
    torch.manual_seed(7)
    assert torch.equal(flashc.attention(q, k, v, dropout_p=0.5), first) and not torch.equal(first, second)
    assert torch.equal(flashc.attention(q, k, v, dropout_p=0.0), flashc.attention(q, k, v))
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    philox = torch.tensor(PHILOX)
    assert torch.autograd.gradcheck(lambda *x: flashc.attention(*x, dropout_p=0.3, philox=philox), leaves)
    # If the values are ones, a row of o is the sum of the weights that dropout keeps.
    torch.manual_seed(8)
    ones = torch.ones_like(v, requires_grad=True)
    o = flashc.attention(q, k, ones, dropout_p=0.3)
    o.sum().backward()
    assert torch.allclose(ones.grad.sum(2), o.detach().sum(2), atol=1e-4)
    with pytest.raises(flashc.ArgumentError, match="expected philox to be a tensor as q, k and v are"):
        flashc.attention(*leaves, dropout_p=0.3, philox=PHILOX)


def test_rates():
    """A rate that lies halfway between multiples of 1/256 is rounded up, as in the compiler. Any kind of zero as a rate
    gives the kernel without dropout."""
    shape = (1, 1, 8, 64)
    for p in (0.5 / 256, 1.5 / 256, 2.5 / 256):
        assert np.array_equal(attention_mask(shape, p, PHILOX), flashc.dropout_mask(shape, p, PHILOX))
        assert np.array_equal(flashc.dropout_mask(shape, p, PHILOX), flashc.dropout_mask(shape, p + 0.5 / 256, PHILOX))
    from flashc._runtime.calls import _cases
    q = np.ones((1, 1, 8, 8), np.float32)
    flashc.attention(q, q, q)
    before = len(_cases)
    for p in (0, 0.0, np.float32(0), np.zeros(()), False):
        flashc.attention(q, q, q, dropout_p=p)
    assert len(_cases) == before


def test_f64_is_exact():
    q, v = np.zeros((1, 1, 64, 4)), np.ones((1, 1, 1, 4))
    o = flashc.attention(q, v, v, dropout_p=0.1, philox=PHILOX)
    assert np.abs(o[o > 0] - 256 / 230).max() < 1e-14


def test_no_keys():
    q, k = np.ones((2, 4, 3, 8), np.float32), np.ones((2, 4, 0, 8), np.float32)
    o, lse = flashc.attention(q, k, k, dropout_p=0.1, philox=PHILOX, return_lse=True)
    assert not o.any() and np.isneginf(lse).all()
    assert not flashc.attention_backward(q, k, k, o, lse, o, dropout_p=0.1, philox=PHILOX)[0].any()


@pytest.mark.parametrize("dropout_p, philox, message", [
    (0.1, None, r"expected philox together with dropout_p: an array \[2\] of int64"),
    (0.0, PHILOX, "expected dropout_p together with philox, got 0"),
    (1.0, PHILOX, "expected dropout_p to be 0, or nearest to one of 1/256 to 255/256, got 1.0"),
    (0.001, PHILOX, "nearest to one of 1/256 to 255/256, got 0.001"),
    (-0.1, PHILOX, "nearest to one of 1/256 to 255/256, got -0.1"),
    (float("nan"), PHILOX, "nearest to one of 1/256 to 255/256, got nan"),
    (None, PHILOX, "expected dropout_p to be a number, got None"),
    ([], PHILOX, r"expected dropout_p to be a number, got \[\]"),
    ("often", PHILOX, "expected dropout_p to be a number, got 'often'"),
    (0.1, (1, 2), "expected .*array"),
    (0.1, PHILOX[:1], r"expected philox of shape \[seed and offset\] = \[2\], got \(1,\)"),
    (0.1, PHILOX.astype(np.int32), "expected philox of int64, got int32"),
    (0.1, np.zeros(4, np.int64)[::2], "last dimension of philox to be contiguous"),
])
def test_refusals(rng, dropout_p, philox, message):
    q, k, v = inputs(rng, 1, 2, 2, 3, 4, 8, 8, np.float32)
    for call in (flashc.attention, lambda *x, **keywords: flashc.attention_backward(
            *x, v[:, :, :3], np.zeros((1, 2, 3), np.float32), v[:, :, :3], **keywords)):
        if philox is None and call is not flashc.attention:
            message = "expected philox, that of the forward pass, together with dropout_p"
        with pytest.raises((flashc.ArgumentError, flashc.UnsupportedTypeError), match=message):
            call(q, k, v, dropout_p=dropout_p, philox=philox)


@pytest.mark.parametrize("arguments, message", [
    (((2, 3, 4), 0.1, PHILOX), r"expected a shape \(B, Hq, Nq, Nk\), got \(2, 3, 4\)"),
    ((5, 0.1, PHILOX), r"expected a shape \(B, Hq, Nq, Nk\), got 5"),
    (((1, 1, 1, 1.5), 0.1, PHILOX), r"expected a shape \(B, Hq, Nq, Nk\)"),
    (((1, 1, 1, 1), 0.1, None), "expected philox to be two integers"),
    (((1, 1, 1, 1), 0.1, (5.7, 1)), "expected philox to be two integers"),
    (((2, 3, 4, -1), 0.1, PHILOX), r"expected a shape \(B, Hq, Nq, Nk\)"),
    (((1, 1, 1, 1), 1.0, PHILOX), "nearest to one of 1/256 to 255/256"),
    (((1, 1, 1, 1), 0.1, (1,)), "expected philox to be two integers, a seed and an offset, got"),
    (((1, 1, 1, 1), 0.1, ("a", 1)), "expected philox to be two integers"),
])
def test_refusals_of_masks(arguments, message):
    with pytest.raises((flashc.ArgumentError, flashc.UnsupportedTypeError), match=message):
        flashc.dropout_mask(*arguments)


def test_mask_without_dropout():
    """A rate of 0 keeps everything."""
    assert flashc.dropout_mask((1, 2, 3, 4), 0.0, PHILOX).all()
