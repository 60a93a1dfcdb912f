"""flashc.decode of sequences with different numbers of queries (cu_seqlens_q) on the CPU: numbers, shapes, refusals,
and the kernels that are chosen for a GPU."""
import random as dice

import pytest

torch = pytest.importorskip("torch")

import flashc  # noqa: E402
from flashc import ops, scores  # noqa: E402
from flashc._runtime import contexts, library  # noqa: E402
from flashc._runtime.options import Options  # noqa: E402
from flashc._runtime.specialization import Specialization  # noqa: E402
from packed_queries import CODES, reference, sequences  # noqa: E402


def make(seed=0, d=16, page=8, lengths=None):
    return sequences(torch, seed, 4, 2, d, d, torch.float32, "cpu", page=page, lengths=lengths)


def run(step, **how):
    return flashc.decode(step.q, *step.cache, cu_seqlens_q=step.offsets, **how)


@pytest.mark.parametrize("page", [8, 3, None])
@pytest.mark.parametrize("code", CODES)
def test_numbers(code, page):
    seed = dice.Random(f"{code}{page}").randrange(1000)
    step = make(seed, page=page)
    keywords, keep, rescore = CODES[code](torch, ops, scores)
    o, lse = run(step, return_lse=True, **keywords)
    want, sums = reference(torch, step, keep, rescore)
    assert o.shape == step.q.shape and lse.shape == (4, step.total)
    assert torch.allclose(lse.double(), sums, atol=1e-4)  # -inf is close to -inf alone
    assert torch.allclose(o.double(), want, atol=1e-5)


def test_equal_numbers_of_queries_are_a_batch():
    step = make(lengths=[(5, 30), (5, 5), (5, 17)])
    o = run(step)[:15]
    batch = flashc.decode(step.q[:15].view(3, 5, 4, 16), *step.cache)
    assert torch.allclose(o.view(batch.shape), batch, atol=1e-6)


def test_arrays_of_the_caller():
    step = make(1)
    want = run(step)
    o, lse = torch.full_like(step.q, torch.nan), torch.full((4, step.total), torch.nan)
    assert run(step, out=o) is o and torch.equal(o, want)
    assert run(step, out=(o, lse)) is o and not lse.isnan().any()
    assert torch.equal(run(step._replace(offsets=step.offsets.tolist())), want)
    assert torch.equal(run(step._replace(offsets=step.offsets.long())), want)


class Exported:
    """A tensor of which only DLPack is known."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **how):
        return self.tensor.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_arrays_that_cannot_be_indexed():
    step = make(3)
    o, lse = torch.empty_like(step.q), torch.empty(4, step.total)
    want = run(step, return_lse=True)
    assert torch.equal(torch.frombuffer(run(step._replace(q=memoryview(step.q.numpy()))),
                                        dtype=torch.float32).view(step.q.shape), want[0])
    for arrays in ((o, lse), (memoryview(o.numpy()), memoryview(lse.numpy())), (Exported(o), Exported(lse))):
        o.fill_(torch.nan), lse.fill_(torch.nan)
        assert run(step._replace(q=Exported(step.q)), out=arrays, return_lse=True) == arrays
        assert torch.equal(o, want[0]) and torch.equal(lse, want[1])


def test_sequences_without_queries():
    step = make(lengths=[(0, 9), (0, 0)])
    o, lse = run(step, return_lse=True)
    assert (o == 0).all() and (lse == -torch.inf).all()
    assert run(step._replace(q=step.q[:0])).shape == (0, 4, 16)
    k, v, lengths, table = step.cache
    none = step._replace(cache=(k, v, lengths[:0], table[:0]), offsets=[0])
    assert (run(none) == 0).all()


def test_sinks():
    step, sinks = make(7), torch.tensor([0.1, 0.5, -1.0, 2.0])
    o, lse = run(step, sinks=sinks, return_lse=True)
    want, sums = reference(torch, step, lambda b, h, i, j: j <= i, None)
    whole = torch.logaddexp(sums, sinks[:, None].double())
    assert torch.allclose(lse.double(), whole, atol=1e-4)
    assert torch.allclose(o.double(), want * (sums - whole).exp().T[..., None], atol=1e-5)


def test_arrays_by_sequence():
    """Masks that read arrays, leftpad and cache_batch_idx have an element for each sequence."""
    step = make(page=None, lengths=[(3, 20), (0, 4), (9, 9), (1, 33)])
    starts = torch.tensor([2, 0, 4, 10])
    want = reference(torch, step, lambda b, h, i, j: (j <= i) & (j >= starts[b]), None)[0]
    assert torch.allclose(run(step, mask=lambda b, h, i, j: j >= ops.array(starts)[b]).double(), want, atol=1e-5)
    assert torch.allclose(run(step, leftpad=starts).double(), want, atol=1e-5)
    k, v, lengths = step.cache
    turned = step._replace(cache=(k.flip(0), v.flip(0), lengths))
    assert torch.equal(run(turned, cache_batch_idx=[3, 2, 1, 0]), run(step))


def test_compiled():
    step = make(4)

    def decode(q, k, v, lengths, table, offsets):
        return flashc.decode(q, k, v, lengths, table, cu_seqlens_q=offsets, return_lse=True)
    if not hasattr(torch.library, "custom_op"):
        pytest.skip("PyTorch before 2.4 has no custom ops")
    got = torch.compile(decode, fullgraph=True, backend="aot_eager")(step.q, *step.cache, step.offsets)
    for one, other in zip(got, decode(step.q, *step.cache, step.offsets)):
        assert torch.equal(one, other)


def test_arrays_that_are_too_short():
    """An array by sequence needs an element for each. One by position needs no element for each row of q."""
    step = make(lengths=[(20, 20), (2, 3), (8, 24)])
    one = torch.tensor([1])
    for how in ({"leftpad": one}, {"score": lambda s, b, h, i, j: s * ops.array(one)[b]}):
        with pytest.raises(flashc.ArgumentError, match="expected at least 3 elements in dimension 0 of .* the batch"):
            run(step, **how)
    table = torch.randn(24)
    o = run(step, score=lambda s, b, h, i, j: s + ops.array(table)[i])
    assert torch.allclose(o, run(step), atol=1e-5)  # the same number for all keys of a query


def test_a_sequence_without_queries_has_no_pages():
    step = make(lengths=[(5, 10), (0, 3), (2, 24)])
    k, v, lengths, table = step.cache
    table = table.clone()
    table[1] = -1
    assert torch.equal(run(step._replace(cache=(k, v, lengths, table))), run(step))


@pytest.mark.parametrize("change, message", [
    ({"offsets": [0, 3, 2]}, r"expected cu_seqlens_q to ascend from 0 to total = 10 at most, got \[0, 3, 2\]"),
    ({"offsets": [1, 3, 7]}, "expected cu_seqlens_q to ascend from 0"),
    ({"offsets": [0, 3, 99]}, "expected cu_seqlens_q to ascend from 0"),
    ({"offsets": [0, 3]}, r"expected cu_seqlens_q of shape \[B \+ 1\] = \[3\], got \(2,\)"),
    ({"offsets": torch.tensor([0.0, 3.0, 7.0])}, "expected cu_seqlens_q of int"),
    ({"q": torch.zeros(1, 10, 4, 16)}, r"expected q of 3 dimensions \[total, Hq, D\] together with cu_seqlens_q"),
    ({"q": torch.zeros(10, 4, 24)}, r"expected q and k of one head dimension D, got q \(10, 4, 24\) in order "
                                    r"\[total, Hq, D\], k_cache \(.*, 8, 2, 16\) "),
    ({"q": torch.zeros(10, 3, 16)}, r"expected the heads of q to be a multiple of those of k and v, got q \(10, 3, 16"),
    ({"q": torch.zeros(0, 4, 16), "offsets": [0, 1, 1]}, "expected cu_seqlens_q to ascend from 0 to total = 0 at most"),
    ({"q": torch.zeros(0, 4, 16), "offsets": torch.tensor([1, 0, 0])}, "expected cu_seqlens_q to ascend from 0"),
])
def test_refusals(change, message):
    step = make(lengths=[(3, 9), (4, 20)])
    with pytest.raises(flashc.Error, match=message):
        run(step._replace(**change))


@pytest.mark.parametrize("out, message", [
    (torch.zeros(9, 4, 16), r"expected out of shape \(10, 4, 16\), got \(9, 4, 16\)"),
    (torch.zeros(1, 10, 4, 16), r"expected out of shape \(10, 4, 16\), got \(1, 10, 4, 16\)"),
    ((None, torch.zeros(1, 4, 10)), r"expected out\[1\] \(lse\) of shape \(4, 10\), got \(1, 4, 10\)")])
def test_results_of_another_shape(out, message):
    with pytest.raises(flashc.ArgumentError, match=message):
        run(make(lengths=[(3, 9), (4, 20)]), out=out)


@pytest.mark.parametrize("page", [8, None])
def test_numbers_of_sequences_that_differ(page):
    """The message names the argument that differs from the others."""
    step = make(lengths=[(3, 9), (4, 20)], page=page)
    k, v, lengths, *table = step.cache
    for name, change in (("lengths", step._replace(cache=(k, v, lengths[:1], *table))),
                         ("cu_seqlens_q", step._replace(offsets=step.offsets[:2])),
                         *([("block_table", step._replace(cache=(k, v, lengths, table[0][:1])))] if table else [])):
        with pytest.raises(flashc.ArgumentError, match=rf"expected {name} of shape .* = \[[23]"):
            run(change)


def test_no_elements_are_read_without_memory():
    step = make(lengths=[(3, 9), (4, 20)])
    with pytest.raises(flashc.ArgumentError, match="expected cu_seqlens_q with elements in memory"):
        run(step._replace(offsets=flashc.ArraySpec((3,), "i32")))
    k, v, _, table = step.cache
    with pytest.raises(flashc.ArgumentError, match="expected lengths with elements in memory"):
        run(step._replace(cache=(k, v, flashc.ArraySpec((2,), "i32"), table)))


@pytest.mark.parametrize("how", [{"layout": "bhsd"}, {"rotary": (torch.zeros(32, 8), torch.zeros(32, 8), False)}])
def test_arguments_that_do_not_go_together(how):
    with pytest.raises(flashc.ArgumentError, match='expected layout="bshd" and no rotary together with cu_seqlens_q'):
        run(make(lengths=[(3, 9)]), **how)


def test_caches_of_other_batches():
    step = make(page=None, lengths=[(3, 9), (4, 20)])
    k, v, lengths = step.cache
    with pytest.raises(flashc.ArgumentError, match="expected caches of B = 2 sequences"):
        run(step._replace(cache=(k[:1], v[:1], lengths)))


def choose(sequences, total, keys, group=4, invariant=False, **how):
    """Returns the schedule for 8 key heads on a GPU with 132 multiprocessors."""
    how.setdefault("page_size", 16)
    one = Specialization("bf16", 128, 128, group, Options(causal=True, scale=0.1).checked(), "sm_90a",
                         extents=(sequences, 8, total, keys), is_packed=True, **how)
    launch = library.CacheLaunch(132, 0, invariant)
    kind, schedule = contexts.context().choose_kernel(one.describe(), launch, "sm_90a", None)
    assert kind == library.FORWARD_KERNEL
    return schedule


def test_the_kernel_that_is_chosen():
    """Few queries share tiles with the other heads of the group. Few tiles are cut into parts: equal ones for one
    sequence, else by the work of all tiles. With batch_invariant nothing depends on the batch."""
    by_work = "splits=8,heads=4,consumers=1,kv-tile=128,persistent=true"
    assert choose(64, 64, 4096) == choose(64, 16 * 64, 4096) == choose(8, 8, 4096) == by_work
    assert choose(64, 17 * 64, 1024) == "heads=4,consumers=2,kv-tile=128"
    assert choose(7, 7, 4096) == "heads=4,consumers=1,kv-tile=128"
    assert choose(512, 16 * 512, 4096) == "heads=4,consumers=1,kv-tile=128"  # the parts would take 1 GB
    assert choose(40, 2336, 3000) == "heads=4,consumers=2,kv-tile=128"
    assert choose(40, 2336, 16384) == "splits=4,heads=4,consumers=2,kv-tile=128,persistent=true"
    assert choose(64, 64, 256) == "heads=4,consumers=1,kv-tile=128"  # two tiles of keys are not cut
    assert choose(4, 4096, 8192) == ""
    assert choose(1, 16, 16384) == "splits=16,heads=4,consumers=1,kv-tile=128"
    assert choose(64, 64, 4096, group=7) == "splits=8,heads=1,consumers=1,kv-tile=128,persistent=true"
    assert choose(1, 1, 4096, group=1) == "splits=32,heads=1,consumers=1,kv-tile=128,persistent=true"
    assert {choose(*sizes, invariant=True) for sizes in ((64, 64, 4096), (1, 16, 16384), (4, 4096, 8192))} == \
        {"heads=4,consumers=2,kv-tile=128"}


@pytest.mark.parametrize("how, why", [({"page_size": 4}, "pages have 4 rows, no multiple of 8"),
                                      ({"cache_dtype": "i8"}, "caches are of another type than queries")])
def test_caches_that_no_forward_kernel_reads(how, why):
    with pytest.raises(flashc.Error, match=f"expected caches that a forward kernel reads, .* queries, but {why}"):
        choose(4, 9, 999, **how)
