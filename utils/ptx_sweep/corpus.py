"""The programs of the sweep: every row of the schedule table, every example, mask class and score kind, in both types.

`PROGRAMS` maps names to functions that compile a program. `EXAMPLES` maps names to arguments of the driver. A name
describes its program, and must not change, because the record is kept under this name.
"""
import json
import pathlib
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

import flashc
import scores
from flashc import masks
from flashc._runtime import library
from flashc._runtime.options import Options
from flashc._runtime.plain import Append, Merge
from flashc._runtime.specialization import GPU_TARGET, Specialization
from flashc._trace.trace import trace
from test_alignment import NAMED
from test_classes import EXACT
from test_masks import POSITIONS

PROGRAMS: Dict[str, Callable[[], "flashc.Kernel"]] = {}
EXAMPLES: Dict[str, List[str]] = {}

SCORES = scores.make_scores(scores.NUMPY, lambda x: x, np.random.default_rng(0), 2, 4, 1024, 1024)


def add(group: str, name: str, d: int = 128, dv: int = 0, dtype: str = "bf16", batch: int = 2,
        heads: Tuple[int, int] = (4, 4), queries: int = 1024, keys: int = 1024, **options: Any) -> None:
    """Adds a program to PROGRAMS. `options` are options of flashc.compile; without `return_lse` there is no
    log-sum-exp."""
    q, k, v = (flashc.ArraySpec((batch, h, n, depth), dtype) for h, n, depth in
               ((heads[0], queries, d), (heads[1], keys, d), (heads[1], keys, dv or d)))
    options.setdefault("return_lse", False)
    options.setdefault("enable_gqa", heads[0] != heads[1])
    name = f"{group}: {name}"
    assert name not in PROGRAMS, name
    PROGRAMS[name] = lambda: flashc.compile(q, k, v, target="sm_90a", **options)


# --- The schedule table: head dimensions, classes of masks, bounded scores, numbers of queries ------------------------

_rng = np.random.default_rng(0)
IDS = np.sort(_rng.integers(0, 9, 1024)).astype(np.int32)
STARTS = np.array([0, 100, 100, 611, 1024], np.int32)
KEPT = _rng.integers(0, 2, (1024, 1024)).astype(bool)
FACTOR, SHIFTS = np.array(3, np.int32), np.array([0, 200], np.int32)
MASKS: Dict[str, Any] = {
    "none": None,
    "causal": masks.causal("top-left"),
    "keys before the queries": lambda b, h, i, j: i > j,
    "window": masks.sliding_window(200, 0, "top-left"),
    "wide window": masks.sliding_window(1500, 100, "top-left"),
    "documents": masks.documents(IDS, sorted=True),
    "packed causal": masks.packed(STARTS, causal=True),
    "prefix": masks.prefix_lm(300, "top-left"),
    "diffusion": masks.block_diffusion(512, 64),
    "chunks": masks.chunked(256, "top-left"),
    "causal shifted by an array": lambda b, h, i, j: j <= i + SHIFTS[b],
    "padding": masks.key_padding(np.array([900, 130])),
    "window with a hole": lambda b, h, i, j: (j <= i) & (j > i - 1000) & (j != i - 3),
    "dilated": masks.dilated_window(300, 4, align="top-left"),
    "code": lambda b, h, i, j: flashc.ops.sqrt(j + 1.0) < i * 0.5,
    "arithmetic": lambda b, h, i, j: (i * j + j * FACTOR) % 7 != 0,
    "memory": lambda b, h, i, j: KEPT[i, j],
}
DIMENSIONS = [(64, 64), (80, 80), (96, 96), (112, 112), (128, 128), (192, 128), (160, 160), (256, 256)]

for _d, _dv in DIMENSIONS:
    for _name, _mask in MASKS.items():
        add("table", f"{_name}, d={_d}", _d, _dv, mask=_mask)
for _d in (64, 128):
    for _name, _mask in MASKS.items():
        add("table", f"{_name}, d={_d}, f16", _d, dtype="f16", mask=_mask, return_lse=True)
        if _name not in ("code", "arithmetic", "memory"):
            add("table", f"{_name}, d={_d}, soft cap", _d, mask=_mask, score=SCORES["soft cap"])
    for _n in (200, 1000, 2000, 4000, 8000, 16000, 17000):
        for _name in ("none", "causal", "window", "prefix", "dilated"):
            add("table", f"{_name}, d={_d}, {_n} queries", _d, queries=_n, keys=_n, mask=MASKS[_name],
                static_shapes=True)
add("table", "a window of 100, d=64", 64, mask=masks.sliding_window(50, 50, "top-left"))
add("table", "a dilated window of 100, d=64", 64, mask=masks.dilated_window(100, 4, align="top-left"))

# --- Computations of scores and masks ---------------------------------------------------------------------------------

for _number, (_name, _score) in enumerate(SCORES.items()):
    _d, _kind = (64, 128)[_number % 2], ("none", "causal", "window")[_number % 3]
    add("score", f"{_name}, {_kind}, d={_d}", _d, mask=MASKS[_kind], score=_score)
for _number, (_name, _mask) in enumerate([*((name, mask) for name, (mask, _) in POSITIONS.items()), *(
        (f"{name} (wide)", mask) for name, mask in EXACT.items())]):
    _d, _dtype = (128, 64)[_number % 2], ("bf16", "f16")[_number // 2 % 2]
    add("mask", f"{_name}, d={_d}, {_dtype}", _d, dtype=_dtype, mask=_mask)
for _number, (_name, (_make, _)) in enumerate(NAMED.items()):
    add("mask", f"{_name}, the last query at the last key", (128, 64)[_number % 2], mask=_make())
for _name in ("soft cap", "alibi", "relative table", "bias of all"):
    for _kind in ("documents", "prefix", "dilated", "memory"):
        add("both", f"{_name}, {_kind}", 64, mask=MASKS[_kind], score=SCORES[_name])

# --- Options of calls -------------------------------------------------------------------------------------------------

for _kind in ("none", "causal", "packed causal"):
    add("call", f"grouped heads, {_kind}", heads=(8, 2), mask=MASKS[_kind], return_lse=True)
    add("call", f"log-sum-exp, {_kind}", 64, mask=MASKS[_kind], return_lse=True)
    add("call", f"static, {_kind}", batch=1, heads=(2, 1), queries=63, keys=65, mask=MASKS[_kind], static_shapes=True,
        enable_gqa=True)
add("call", "bottom-right causal", mask=masks.causal("bottom-right"), queries=100)
add("call", "bottom-right window", 64, causal=True, window=(100, 9), queries=100)
add("call", "a scale of its own", 64, scale=0.3, causal=True)
add("call", "a negative scale", 64, scale=-0.3)
add("call", "a scale of 0", 64, scale=0.0)
for _d, _dv in ((8, 8), (24, 40), (40, 24), (72, 72), (136, 88), (248, 16)):
    add("call", f"d={_d}, dv={_dv}", _d, _dv, causal=True)

# --- The sums of columns ----------------------------------------------------------------------------------------------


def add_operation(name: str, d: int, operation: int, group: int = 1, dtype: str = "bf16", mask: Any = None,
                  score: Any = None, schedule: Optional[str] = None, dv: Optional[int] = None,
                  deterministic: bool = False, has_sinks: bool = False, dropout_p: float = 0.0,
                  captured: Optional[int] = None) -> None:
    """Adds a program for an operation that flashc.compile does not have. A backward pass takes the gradient of the
    log-sum-exp only in f16. `captured` is the number of the array whose gradient is computed."""
    code = trace(mask, score)
    has_lse = operation >= library.ATTENTION_BACKWARD and dtype == "f16"
    number = 0 if captured is None else [n for n, x in enumerate(code.captures) if x.shape][captured]
    options = Options(dropout_p=dropout_p, return_lse=has_lse, schedule=schedule, deterministic=deterministic,
                      operation=operation).of_kernel(d)
    specialization = Specialization(dtype, d, dv or d, group, options, captured=number,
                                    vectors=("sinks",) if has_sinks else ()).of(code)
    PROGRAMS[f"{name}, d={d}"] = lambda: compiled(specialization)


def compiled(specialization: Any) -> Any:
    """Compiles a specialization. Returns the values that the sweep hashes."""
    kernel = specialization.compile()
    return SimpleNamespace(ptx=kernel.ptx(), manifest=json.loads(kernel.manifest()), decisions=kernel.decisions())


def add_sums(name: str, d: int, per: int = library.COLUMN_SUMS, **keywords: Any) -> None:
    add_operation(f"sums: {name}", d, per, **keywords)


for _d in (64, 128, 256):
    for _name in ("none", "causal", "window", "documents", "memory"):
        add_sums(_name, _d, dtype="f16" if _d == 64 else "bf16", mask=MASKS[_name])
    add_sums("groups", _d, library.GROUP_COLUMN_SUMS, group=4, mask=MASKS["causal"])
for _name in ("soft cap", "alibi", "bias of all", "t5"):
    add_sums(_name, 128, score=SCORES[_name])
for _schedule in ("persistent=false", "q-stages=1", "consumers=2,kv-tile=64", "ping-pong=true"):
    add_sums(f"{_schedule}, causal", 128, mask=MASKS["causal"], schedule=_schedule)

# --- The backward pass ------------------------------------------------------------------------------------------------

for _d in (64, 128):
    for _name in ("none", "causal", "window", "documents", "code", "arithmetic", "memory"):
        add_operation(f"backward: {_name}", _d, library.ATTENTION_BACKWARD, dtype="f16" if _d == 64 else "bf16",
                      mask=MASKS[_name])
    add_operation("backward: groups", _d, library.ATTENTION_BACKWARD, group=4, mask=MASKS["causal"])
    add_operation("backward: causal, deterministic", _d, library.ATTENTION_BACKWARD, mask=MASKS["causal"],
                  deterministic=True)
    for _name in ("soft cap", "alibi", "bias of all", "t5"):
        add_operation(f"backward: {_name}", _d, library.ATTENTION_BACKWARD, score=SCORES[_name])
    add_operation("backward: symmetric alibi, causal", _d, library.ATTENTION_BACKWARD, mask=MASKS["causal"],
                  score=SCORES["symmetric alibi"])
add_operation("backward: dv=96", 40, library.ATTENTION_BACKWARD, dv=96)
for _d, _dv in ((192, 192), (256, 256), (192, 128), (40, 200)):
    for _name in ("none", "causal", "memory"):
        add_operation(f"backward: {_name}, dv={_dv}", _d, library.ATTENTION_BACKWARD, dv=_dv, mask=MASKS[_name])
add_operation("backward: groups, dv=256", 256, library.ATTENTION_BACKWARD, dv=256, group=4, mask=MASKS["causal"])
add_operation("backward: soft cap, dv=256", 256, library.ATTENTION_BACKWARD, dv=256, score=SCORES["soft cap"])
for _schedule in ("consumers=1", "split-gradients=queries", "split-gradients=queries,kv-tile=32", "persistent=true",
                  "stages=3"):
    add_operation(f"backward: {_schedule}, causal", 64, library.ATTENTION_BACKWARD, mask=MASKS["causal"],
                  schedule=_schedule)

# --- Sinks ------------------------------------------------------------------------------------------------------------

for _d in (64, 128, 256):
    for _name in ("none", "causal"):
        for _operation, _what in ((library.ATTENTION, "forward"), (library.ATTENTION_BACKWARD, "backward")):
            add_operation(f"sinks: {_what}, {_name}", _d, _operation, dtype="f16" if _d == 64 else "bf16",
                          mask=MASKS[_name], has_sinks=True)

# --- Dropout ----------------------------------------------------------------------------------------------------------

for _d in (64, 128, 256):
    for _name in ("none", "causal"):
        for _operation, _what in ((library.ATTENTION, "forward"), (library.ATTENTION_BACKWARD, "backward")):
            add_operation(f"dropout: {_what}, {_name}", _d, _operation, dtype="f16" if _d == 64 else "bf16",
                          mask=MASKS[_name], dropout_p=0.1 if _d < 256 else 0.7)

# --- Gradients of arrays that scores read -----------------------------------------------------------------------------

for _d in (64, 128, 256):
    for _name, _number in (("alibi", 0), ("bias of a query", 0), ("bias of a key", 0), ("relative table", 0),
                           ("bias of all", 0)):
        add_operation(f"captured: {_name}", _d, library.CAPTURED_GRADIENT, dtype="f16" if _d == 64 else "bf16",
                      mask=MASKS["causal"], score=SCORES[_name], captured=_number)
for _name, _number in (("t5", 0), ("temperature of a head", 0), ("of a batch and a head", 0),
                       ("alibi and biases", 0), ("alibi and biases", 1), ("alibi and biases", 2), ("gate of a key", 0),
                       ("soft cap and alibi", 0), ("sine of the distance", 0), ("slope of a query", 0)):
    add_operation(f"captured: {_name}, {_number}", 128, library.CAPTURED_GRADIENT, group=2, score=SCORES[_name],
                  captured=_number)
add_operation("captured: alibi, dropout", 128, library.CAPTURED_GRADIENT, score=SCORES["alibi"], captured=0,
              dropout_p=0.1)
add_operation("captured: bias of all, dropout", 64, library.CAPTURED_GRADIENT, score=SCORES["bias of all"], captured=0,
              dropout_p=0.1)
for _name in ("alibi", "relative table", "bias of all"):
    for _mask in ("documents", "window", "memory"):
        add_operation(f"captured: {_name}, {_mask}", 64, library.CAPTURED_GRADIENT, mask=MASKS[_mask],
                      score=SCORES[_name], captured=-1)

# --- Operations without scores ----------------------------------------------------------------------------------------


def add_plain(name: str, kind: Any, *fields: Any) -> None:
    PROGRAMS[name] = lambda: compiled(kind(GPU_TARGET, *fields))


for _parts, _dtype in (("f32", "bf16"), ("f32", "f32"), ("bf16", "bf16"), ("f16", "f32")):
    for _d in (64, 100, 128, 33):
        add_plain(f"merge: {_parts} to {_dtype}, d={_d}", Merge, _parts, _dtype, _d, _d != 100)
for _rotary, _is_interleaved in ((0, False), (64, False), (64, True), (128, False), (128, True)):
    _how = f"rotary {_rotary}{', interleaved' if _is_interleaved else ''}" if _rotary else "no rotary"
    for _is_paged in (False, True):
        add_plain(f"append: {_how}, {'paged' if _is_paged else 'contiguous'}",
                  Append, "bf16", 128, 128, _is_paged, _is_paged, _rotary, "f32", _is_interleaved)
add_plain("append: f32", Append, "f32", 64, 64, True, False, 64, "f32", False)
add_plain("append: angles of f16", Append, "f16", 128, 128, True, False, 128, "f16", False)
add_plain("append: d=192, dv=128", Append, "bf16", 192, 128, True, False, 0, "f32", False)
add_plain("append: d=33", Append, "bf16", 33, 33, True, True, 0, "f32", False)

# --- Caches -----------------------------------------------------------------------------------------------------------


def add_cached(name: str, d: int = 128, dv: Optional[int] = None, group: int = 4, tokens: int = 1, page: int = 0,
               mask: Any = None, score: Any = None, causal: bool = True, window: Any = None,
               schedule: Optional[str] = None, target: str = GPU_TARGET, has_sinks: bool = False,
               **fields: Any) -> None:
    """Adds a program of attention to a cache with 8 key heads. `fields` are other fields of the specialization."""
    code = trace(mask, score)
    options = Options(causal, None if window is None else (window, 0), schedule=schedule).of_kernel(d)
    specialization = Specialization("bf16", d, dv or d, group, options, target, page_size=page,
                                    extents=(library.ANY, 8, tokens, library.ANY),
                                    vectors=("sinks",) if has_sinks else ()).of(code)._replace(**fields)
    PROGRAMS[f"cache: {name}, d={d}"] = lambda: compiled(specialization)


for _d in (64, 128, 256):
    add_cached("no pages", _d)
    for _page in (1, 8, 16, 64):
        add_cached(f"pages of {_page}", _d, page=_page)
    add_cached("a cluster of 4", _d, schedule="warps=4,splits=4")
    add_cached("5 parts", _d, page=16, schedule="splits=5,merge=kernel,warps=4")
    add_cached("chunks", _d, schedule="chunk=1024,merge=kernel,warps=4")
    add_cached("sm_80", _d, schedule="splits=4,merge=kernel,warps=4", target="sm_80")
    for _type in ("f8e4m3", "i8"):
        add_cached(f"{_type}, pages of 64", _d, page=64, cache_dtype=_type, scales=(True, True))
        add_cached(f"{_type}, scales of heads", _d, cache_dtype=_type, scales=(False, True))
for _name, _fields in (("tokens", {"tokens": 3}), ("many rows", {"tokens": 16}), ("one head", {"group": 1}),
                       ("dv=64", {"dv": 64}), ("window", {"window": 200}), ("all keys", {"causal": False}),
                       ("sinks", {"has_sinks": True}), ("soft cap", {"score": SCORES["soft cap"]}),
                       ("alibi", {"score": SCORES["alibi"]}), ("arithmetic", {"mask": MASKS["arithmetic"]
                                                                              }), ("memory", {"mask": MASKS["memory"]}),
                       ("the sequence's length", {"mask": lambda b, h, i, j: j >= flashc.ops.key_length() - 50
                                                  }), ("a window by name", {"mask": masks.sliding_window(200)})):
    add_cached(_name, page=16, **_fields)
add_cached("i8 on sm_80", cache_dtype="i8", target="sm_80")
for _d in (64, 128, 256):
    for _page in (0, 16, 64):
        add_cached(f"prefill, {f'pages of {_page}' if _page else 'no pages'}", _d, tokens=library.ANY, page=_page)
for _name, _fields in (("window", {"window": 200}), ("sinks", {"has_sinks": True}),
                       ("alibi", {"score": SCORES["alibi"]}), ("memory", {"mask": MASKS["memory"]})):
    add_cached(f"prefill, {_name}", tokens=library.ANY, page=16, **_fields)

# --- Fields of the schedule -------------------------------------------------------------------------------------------

SCHEDULES = [
    "consumers=1",
    "consumers=2",
    "consumers=3,kv-tile=64",
    "consumers=4,kv-tile=64",
    "kv-tile=16",
    "consumers=2,kv-tile=96",
    "stages=1",
    "consumers=2,stages=3,kv-tile=80",
    "ping-pong=false",
    "persistent=false",
    "q-stages=1",
    "q-stages=2",
    "q-stages=2,epilogue=plain",
    "q-stages=2,epilogue=softmax",
    "q-stages=2,store=own-slot",
    "store=q-slot",
    "store=own-slot",
    "store=registers",
    "tensor-sums=true",
    "wait-after=4",
    "own-keys=true",
    "own-keys=false",
]
for _schedule in SCHEDULES:
    for _kind in ("none", "causal", "window"):
        if "own-keys=true" in _schedule and _kind == "none":
            continue
        add("schedule", f"{_schedule}, {_kind}, d=64", 64, mask=MASKS[_kind], schedule=_schedule)
    if "consumers=4" not in _schedule:
        add("schedule", f"{_schedule}, causal, d=128", mask=MASKS["causal"], schedule=_schedule)
add("schedule", "own-keys=false, documents", 64, mask=MASKS["documents"], schedule="own-keys=false")
for _schedule in ("max=unified", "max=running"):
    add("schedule", f"{_schedule}, soft cap", 64, score=SCORES["soft cap"], schedule=_schedule)

for _path in sorted((pathlib.Path(__file__).resolve().parents[2] / "examples").glob("*.mlir")):
    EXAMPLES[f"example: {_path.stem}"] = [str(_path)]
    _form = ",split-gradients=queries" if "backward" in _path.stem else ""  # the other form has tiles of 64
    EXAMPLES[f"example: {_path.stem}, tiles of 48 keys"] = [str(_path), f"--schedule=consumers=1,kv-tile=48{_form}"]

#: A few programs of every group, which `make test` compiles in seconds.
SOME = ("table: none, d=64", "table: causal, d=128", "table: documents, d=64", "table: dilated, d=128, f16",
        "table: memory, d=256", "table: none, d=128, soft cap", "score: alibi, none, d=128",
        "mask: blocks (wide), d=64, bf16",
        "sums: groups, d=64", "call: grouped heads, packed causal",
        "schedule: own-keys=true, causal, d=128", "example: window", "merge: f32 to bf16, d=128",
        "append: rotary 128, paged", "cache: pages of 16, d=128", "cache: pages of 8, d=64",
        "cache: f8e4m3, scales of heads, d=128")
