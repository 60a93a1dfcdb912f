"""The host's work in a step of generation: functions of Python and operations of PyTorch, for each layer and each mask.
The first layer of a mask does more than the others, since it makes what the layers share."""
import contextlib
import copy
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import flashc  # noqa: E402
import transformers_models as models  # noqa: E402
from flashc import _decode  # noqa: E402
from flashc._trace import repeated  # noqa: E402
from flashc.integrations import _transformers_mask as reader  # noqa: E402
from flashc.integrations import transformers as door  # noqa: E402

NAME = door.register()


@pytest.fixture(autouse=True)
def poison():
    """New outputs are not filled with NaN here, since that would be counted."""


class Operations(TorchDispatchMode):
    """Lists the operations that PyTorch dispatches."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **keywords or {})


@contextlib.contextmanager
def functions_of_python(found):
    """Appends the name of each function of Python that runs to `found`."""
    def see(frame, event, argument):
        if event == "call":
            found.append(frame.f_code.co_name)
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def operations_of_torch(found):
    """Appends the name of each operation of PyTorch to `found`."""
    with Operations() as operations:
        yield
    found += operations.names


def make(name, dtype=torch.float32):
    """Returns a model with four layers, so that several layers share a mask."""
    model = models.make(name)
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = 4
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:2] * 2
    return type(model)(config).to(dtype).eval()


class Steps:
    """A model, whose cache grows by one token at each call."""

    def __init__(self, model, implementation=NAME, kind="dynamic", is_padded=False):
        self.model, self.tokens, self.length = model, models.ids(2, 20), 20
        model.set_attn_implementation(implementation)
        self.cache = transformers.StaticCache(model.config, max_cache_len=160) if kind == "static" else \
            transformers.DynamicCache(config=model.config)
        self.mask = None
        if is_padded:
            self.mask = torch.ones(2, 160, dtype=torch.long)
            self.mask[0, :3] = 0
        self.run(self.tokens)
        for _ in range(4):
            self()

    def run(self, tokens):
        mask = None if self.mask is None else self.mask[:, :self.length]
        with torch.no_grad():
            return self.model(tokens, cache=self.cache, attention_mask=mask, logits_to_keep=1)

    def __call__(self):
        self.length += 1
        return self.run(self.tokens[:, :1])


def work_of_a_step(steps, watch):
    """Returns what `watch` finds in a step: a list for each layer, and a list for each mask."""
    layers, masks = [], []

    def watched(function, found):
        def call(*given, **named):
            found.append([])
            with watch(found[-1]):
                return function(*given, **named)
        return call
    transformers.AttentionInterface.register(NAME, watched(door.attention, layers))
    transformers.AttentionMaskInterface.register(NAME, watched(reader.make_mask, masks))
    try:
        steps()
    finally:
        door.register()
    assert len(layers) == 4
    return layers, masks


every_step = pytest.mark.parametrize("kind", ["dynamic", "static"])
every_mask = pytest.mark.parametrize("is_padded", [False, True])
every_model = pytest.mark.parametrize("name, count", [("Llama", 1), ("Gemma2", 2), ("GPT-OSS", 2)])


@every_step
@every_mask
@every_model
def test_layers_run_few_functions(name, count, kind, is_padded):
    """`count`: how many masks a model has. On the CPU a layer also reads the lengths, which are two functions more."""
    layers, masks = work_of_a_step(Steps(make(name), NAME, kind, is_padded), functions_of_python)
    first, later = layers[:count], layers[count:]
    assert len(masks) == count and max(map(len, masks)) <= 48, masks
    assert max(map(len, first)) <= 90, first
    assert max(map(len, later)) <= 22, later


@every_step
@every_mask
@every_model
def test_layers_run_one_operation(name, count, kind, is_padded):
    """A layer makes its result, and nothing else; the first one of a mask also makes the lengths."""
    layers, masks = work_of_a_step(Steps(make(name), NAME, kind, is_padded), operations_of_torch)
    assert all(work == ["aten.new_empty.default"] for work in layers[count:])
    assert max(map(len, layers[:count])) <= 3 and max(map(len, masks)) <= 2


def test_layers_with_sinks_of_16_bits_convert_them():
    layers, _ = work_of_a_step(Steps(make("GPT-OSS", torch.bfloat16)), operations_of_torch)
    assert all(work == ["aten._to_copy.default", "aten.new_empty.default"] for work in layers[2:])


@every_step
@every_mask
def test_steps_run_fewer_operations_than_sdpa(kind, is_padded):
    model, found = make("Llama"), {}
    for implementation in ("sdpa", NAME):
        steps = Steps(model, implementation, kind, is_padded)
        found[implementation] = []
        with operations_of_torch(found[implementation]):
            steps()
    assert len(found[NAME]) < len(found["sdpa"])


@every_step
@every_mask
@every_model
def test_steps_repeat_nothing(name, count, kind, is_padded, monkeypatch):
    """80 steps trace no function and compile no kernel. They make a case for each 64 rows of a cache, and read no
    element of a tensor, which would wait for a GPU."""
    steps, made = Steps(make(name), NAME, kind, is_padded), []
    case = _decode._case
    monkeypatch.setattr(_decode, "_case", lambda *given: made.append(1) or case(*given))
    monkeypatch.setattr(_decode, "_grown", {})
    before = repeated.traces, flashc.statistics().compilations
    operations = []
    for _ in range(80):
        work = work_of_a_step(steps, operations_of_torch)
        operations += [it for part in work for calls in part for it in calls]
    assert (repeated.traces, flashc.statistics().compilations) == before
    assert len(made) <= 3 * count
    assert "aten._local_scalar_dense.default" not in operations


def test_a_mask_is_for_its_shapes():
    """What layers share is found by all that it depends on."""
    mask = reader.make_mask(2, 1, 9, 8, 0, attention_mask=torch.ones(2, 9, dtype=torch.bool))
    q, k = torch.randn(2, 4, 1, 16), torch.randn(2, 2, 9, 16)
    step = mask.step(q, k, k, 0.25, None)
    assert step is not None and mask.step(q, k, k, 0.25, None) is step
    assert mask.step(q, k, k, 0.5, None) is not step and mask.step(q, k, k, 0.25, 30.0) is not step
    assert mask.step(q, k[..., :8], k[..., :8], 0.25, None) is not step
    for other in (k[..., :12], k[:1]):  # A head dimension that needs padding, and another batch.
        assert mask.step(q, other, other, 0.25, None) is None
    with pytest.raises(flashc.ArgumentError, match="expected 1 queries and at most 9 keys"):
        mask.step(q.expand(-1, -1, 2, -1), k, k, 0.25, None)
