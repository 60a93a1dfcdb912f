"""Consumers that visit the tiles of keys of their own rows (own-keys) on a GPU, against f32 attention by the rule of
flashc.bench: masks whose consumers leave out tiles in front, behind, on both sides, all but one, and of different numbers
in every tile of queries; sink tokens and other keys that all queries see beside those; ragged lengths, rows without
keys, many launches. Skipped where there is no GPU.

    PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so python3 -m pytest test/python/gpu/test_own_keys.py
"""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from flashc.bench._check import Reference  # noqa: E402

LENGTHS = [(1, 1), (1, 700), (63, 65), (65, 1), (193, 193), (257, 331), (700, 63), (1000, 1000), (1009, 1009),
           (1031, 2053), (2049, 2049)]
MASKS = {
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 100),
    "one key": lambda b, h, i, j: j == i,
    "wide window": lambda b, h, i, j: (i - j <= 300) & (j - i <= 200),
    "ahead": lambda b, h, i, j: j > i + 64,
    "steep": lambda b, h, i, j: (j <= 3 * i) & (j >= 3 * i - 500),
    "some rows empty": lambda b, h, i, j: (j <= i - 70) & (j >= i - 75),
    "sinks": masks.sink_window(4, 1023),
    "sinks, short window": masks.sink_window(1, 100),
    "sinks, own key": masks.sink_window(70, 0),
    "sinks of several tiles": masks.sink_window(300, 200),
    "sinks, longer than the window": masks.sink_window(700, 63),
    "prefix and both sides": lambda b, h, i, j: (j < 200) | ((i - j <= 300) & (j - i <= 200)),
    "sinks and keys ahead": lambda b, h, i, j: (j < 4) | (j > i + 64),
    "two prefixes": lambda b, h, i, j: (j < 4) | ((j >= 130) & (j < 400)) | ((j <= i) & (i - j < 100)),
    "sinks, steep": lambda b, h, i, j: (j < 5) | ((j <= 3 * i) & (j >= 3 * i - 500)),
    "sinks, falling": lambda b, h, i, j: (j < 130) | ((j <= 1500 - i) & (j >= 1200 - i)),
    "sinks, some rows empty": lambda b, h, i, j: (i > 100) & (j < 4) | (j <= i - 70) & (j >= i - 75),
}
SCHEDULES = {
    (64, "three"): "consumers=3,kv-tile=128,stages=4,q-stages=1,output-slot=false",
    (64, "small tiles"): "consumers=3,kv-tile=64,stages=2,q-stages=1,output-slot=false",
    (64, "no turns"): "consumers=3,kv-tile=128,stages=2,q-stages=1,output-slot=false,ping-pong=false",
    (64, "not pipelined"): "consumers=2,kv-tile=128,stages=2,q-stages=1,output-slot=false,overlap=false,wait-after=0",
    (64, "one stage more"): "consumers=2,kv-tile=32,stages=3,q-stages=1,output-slot=false,wait-after=0",
    (64, "listed"): "consumers=3,kv-tile=128,stages=4,q-stages=1,output-slot=false,order=list",
    (64, "listed, small tiles"): "consumers=3,kv-tile=64,stages=2,q-stages=1,output-slot=false,order=list",
    (64, "listed, no turns"): "consumers=3,kv-tile=32,stages=2,q-stages=1,output-slot=false,wait-after=0,"
                              "ping-pong=false,order=list",
    (128, "three"): "consumers=3,kv-tile=80,stages=4,q-stages=1,output-slot=false",
    (128, "two"): "consumers=2,kv-tile=128,stages=2,q-stages=1,output-slot=false",
}


def run(mask, schedule, d, nq, nk, batch=2, score=None):
    q, k, v = (torch.randn(batch, heads, n, d, device="cuda").to(torch.bfloat16)
               for heads, n in ((4, nq), (2, nk), (2, nk)))
    out = torch.full_like(q, float("nan"))
    flashc.attention(q, k, v, mask=mask, score=score, enable_gqa=True, schedule=schedule + ",own-keys=true", out=out)
    return q, k, v, out


def get_keep(mask, nq, nk):
    axes = [torch.arange(extent, device="cuda") for extent in (2, 4, nq, nk)]
    return mask(*(axis.view([-1 if dim == place else 1 for dim in range(4)]) for place, axis in enumerate(axes)))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("d,kind", SCHEDULES)
def test_against_f32(d, kind, name):
    print("seed", torch.seed())
    mask = MASKS[name]
    for nq, nk in LENGTHS:
        q, k, v, out = run(mask, SCHEDULES[d, kind], d, nq, nk)
        comparison = Reference(q, k, v, get_keep(mask, nq, nk)).compare(out)
        assert not comparison.problem, (comparison, nq, nk)


@pytest.mark.parametrize("name", ["window", "sinks", "sinks of several tiles"])
def test_score_by_position(name):
    """The key of a visit is read where nothing is masked, too."""
    print("seed", torch.seed())
    for nq, nk in ((193, 193), (2049, 2049)):
        distance = (torch.arange(nq, device="cuda")[:, None] - torch.arange(nk, device="cuda")).abs()
        q, k, v, out = run(MASKS[name], SCHEDULES[64, "three"], 64, nq, nk,
                           score=lambda s, b, h, i, j: s - 0.01 * abs(i - j))
        comparison = Reference(q, k, v, get_keep(MASKS[name], nq, nk), lambda s: s - 0.01 * distance).compare(out)
        assert not comparison.problem, (comparison, nq, nk)


@pytest.mark.parametrize("name", ["causal", "window", "steep", "sinks", "sinks of several tiles"])
def test_many_launches_agree(name):
    print("seed", torch.seed())
    q, k, v, first = run(MASKS[name], SCHEDULES[64, "three"], 64, 2053, 2053, batch=8)
    schedule = SCHEDULES[64, "three"] + ",own-keys=true"
    for _ in range(500):
        again = flashc.attention(q, k, v, mask=MASKS[name], enable_gqa=True, schedule=schedule)
        assert torch.equal(first, again)
