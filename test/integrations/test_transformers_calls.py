"""The calls that the door of transformers makes and refuses: which masks it recognises, what compiles, graphs."""
import inspect
import pathlib
import runpy
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import masking_utils as mu  # noqa: E402

import flashc  # noqa: E402
import transformers_models as models  # noqa: E402
from flashc._trace import repeated  # noqa: E402
from flashc.integrations import _transformers_mask as reader  # noqa: E402
from flashc.integrations import transformers as door  # noqa: E402

NAME = door.register()


def test_first_lines_of_the_page(tmp_path):
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "transformers.md"
    code = page.read_text().split("```py\n")[1].split("```")[0]
    models.make("Llama").save_pretrained(tmp_path)
    tokens = models.ids(2, 9)
    names = {"path": tmp_path, "tokens": tokens, "mask": torch.ones_like(tokens)}
    exec(code, names)
    assert names["found"].shape[1] > 9 and names["model"].config._attn_implementation == NAME


def test_the_example(capsys, monkeypatch):
    path = pathlib.Path(__file__).resolve().parents[2] / "examples" / "transformers_generate.py"
    monkeypatch.setattr(sys, "argv", [str(path)])
    assert runpy.run_path(str(path))["main"]() == 0
    assert "the tokens of eager" in capsys.readouterr().out or torch.cuda.is_available()


def test_the_benchmark_of_models():
    """At a tiny size: every implementation that a model takes, in every task; flex_attention compiles for minutes."""
    from flashc.bench import _models
    shown, names = [], [name for name in _models.NAMES if name != "flex_attention"]
    lines = _models.run(shown.append, ["Gemma 2 9B", "GPT-OSS 20B"], is_tiny=True, names=names, total_ms=1, rounds=2,
                        warm_up_ms=1)
    assert [line.task.split()[0] for line in lines] == ["forward", "training", "generation", "generation"] * 2
    for line, text in zip(lines, shown):
        assert {"eager", NAME} <= set(line.rates) and min(line.rates.values()) > 0
        assert "sdpa" in line.left_out and "flash_attention_2" in line.left_out and text == str(line)
        assert f"fcattn / eager {line.rates[NAME] / line.rates['eager']:.2f}" in text and "fcattn / sdpa" not in text


def test_the_benchmark_compares_nothing_that_is_not_compiled():
    """A function that PyTorch would run without compilation, after it was compiled too often, raises an error."""
    from flashc.bench import _models

    def run(count):
        function = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
        return [function(torch.zeros(length)) for length in range(2, count)]
    with _models.compiling():
        assert len(run(60)) == 58
    with _models.compiling(), pytest.raises(Exception, match="recompile_limit"):
        run(80)


# --- What is recognised -----------------------------------------------------------------------------------------------

def test_this_version_has_all_functions_that_are_recognised():
    """A function that is not recognised is traced, which is right but slower."""
    assert len(reader._readers) == 11 and None not in reader._readers


IDS = torch.tensor([[0, 0, 1, 1]])
CAUSAL, WINDOW = mu.causal_mask_function, mu.sliding_window_causal_mask_function(3)


@pytest.mark.parametrize("function, window, others", [
    (CAUSAL, (None, 0), 0), (mu.bidirectional_mask_function, None, 0), (WINDOW, (2, 0), 0),
    (mu.sliding_window_bidirectional_mask_function(3), (3, 3), 0),
    (mu.chunked_causal_mask_function(4, IDS[0]), (None, 0), 1), (mu.and_masks(WINDOW, CAUSAL), (2, 0), 0),
    (mu.and_masks(CAUSAL, mu.sliding_window_overlay(9), mu.sliding_window_overlay(5)), (4, 0), 0),
    (mu.or_masks(CAUSAL, mu.bidirectional_mask_function), None, 0), (mu.or_masks(CAUSAL, WINDOW), None, 1),
    (mu.and_masks(mu.remap_positions_for_packed_sequence(WINDOW, IDS), mu.packed_sequence_mask_function(IDS)), (2, 0),
     1),
    (mu.remap_positions_for_packed_sequence(WINDOW, IDS), None, 1), (lambda b, h, i, j: j <= i, None, 1),
    (mu.and_masks(CAUSAL, mu.blockwise_overlay(IDS)), (None, 0), 1)])
def test_windows_are_recognised(function, window, others):
    """What is a window is given to flashc as one, so that its kernel is the usual one."""
    found = reader.read(function, reader._Context(0, 0))
    assert found.window == window and len(found.others) == others


def test_a_mask_without_padding_is_a_window_alone():
    for queries, keys, offset in ((7, 7, 0), (1, 9, 8), (3, 9, 6)):
        mask = reader.make_mask(2, queries, keys, offset, 0, WINDOW, torch.ones(2, keys, dtype=torch.bool))
        if queries > 1:
            assert mask.of_attention(queries, keys) == ((2, 0), None)
        else:  # A step of generation does not wait to look at the padding.
            assert mask.of_attention(queries, keys)[1] is not None


def test_masks_of_static_caches_without_padding():
    """The part of the cache that is not filled counts as padding, which no query sees."""
    padding = torch.ones(2, 7, dtype=torch.bool)
    mask = reader.make_mask(2, 7, 20, 0, 0, CAUSAL, padding)
    assert mask.conjunction == reader.Conjunction(right=0)
    padding[0, 2] = False
    assert len(reader.make_mask(2, 7, 20, 0, 0, CAUSAL, padding).conjunction.others) == 1


def test_layers_share_a_mask():
    mask = reader.make_mask(2, 7, 7, 0, 0, CAUSAL, torch.rand(2, 7) < 0.5)
    assert mask.of_attention(7, 7)[1] is mask.of_attention(7, 7)[1]
    assert isinstance(mask.of_attention(7, 7)[1], flashc.plan_mask(CAUSAL).__class__)


# --- What compiles ----------------------------------------------------------------------------------------------------

@pytest.fixture
def compiled():
    """Returns a function that says how many kernels were compiled, and how many functions traced, since its last
    call."""
    flashc.configure(disk_cache=False)
    last = [flashc.statistics().compilations, repeated.traces]

    def since():
        now = [flashc.statistics().compilations, repeated.traces]
        found = now[0] - last[0], now[1] - last[1]
        last[:] = now
        return found
    return since


def call(model, batch, length, left, right):
    mask = torch.ones(batch, length, dtype=torch.long)
    for b in range(batch):
        mask[b, :left * (b + 1)], mask[b, length - right * b:] = 0, 0
    model(models.ids(batch, length), attention_mask=mask).logits.sum().backward()


@pytest.mark.parametrize("name", ["Gemma3", "Llama4"])
def test_no_other_shape_compiles(name, compiled):
    """Lengths, batches and paddings change, with and without a past."""
    model = models.make(name)
    model.set_attn_implementation(NAME)

    def steps(batch, length, left):
        mask = (torch.arange(length) >= left * torch.arange(batch)[:, None]).long()
        for cache in ("dynamic", "static"):
            model.generate(models.ids(batch, length), attention_mask=mask, max_new_tokens=4, do_sample=False,
                           cache_implementation=cache, pad_token_id=0, eos_token_id=None)
    for left, right in ((0, 0), (3, 2)):
        call(model, 2, 21, left, right)
        steps(2, 18, left)
    assert 0 < compiled()[0] <= 20
    for batch, length, left, right in ((3, 40, 5, 1), (2, 17, 1, 7), (4, 33, 0, 3), (2, 64, 9, 0), (3, 19, 0, 0)):
        call(model, batch, length, left, right)
    for batch, length, left in ((3, 25, 4), (2, 31, 0), (4, 9, 1)):
        steps(batch, length, left)
    assert compiled() == (0, 0)


def test_no_other_packing_compiles(compiled):
    model = models.make("Gemma2")
    model.set_attn_implementation(NAME)
    for rows in ([[9, 4], [13]], [[5, 8, 20], [1, 32]], [[30, 1], [2, 29]]):
        positions = torch.stack([torch.cat([torch.arange(length) for length in row]) for row in rows])
        model(models.ids(2, positions.shape[1]), position_ids=positions).logits.sum().backward()
        if rows[0] == [9, 4]:
            assert compiled()[0] > 0
    assert compiled() == (0, 0)


def test_no_other_length_of_a_bias_compiles(compiled):
    """T5 makes its bias for each length, and for each step of generation."""
    model = models.make("T5")
    model.set_attn_implementation(NAME)
    for length in (9, 12, 17):
        inputs = models.FAMILIES["T5"].inputs(2, length)
        model(**inputs).logits.sum().backward()
        model.generate(input_ids=inputs["input_ids"], max_new_tokens=length - 2, do_sample=False, eos_token_id=None)
        if length == 9:
            assert compiled()[0] > 0
    assert compiled() == (0, 0)


# --- Graphs of PyTorch ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["GPT-OSS"])
def test_compiled_models(name):
    """Under torch.compile the attention runs outside of the graph."""
    model, inputs = models.make(name), {"input_ids": models.ids(2, 21)}
    inputs["attention_mask"] = torch.ones(2, 21, dtype=torch.long)
    inputs["attention_mask"][0, :4] = 0
    model.set_attn_implementation(NAME)
    want = model(**inputs).logits
    want.sum().backward()
    gradients = {key: x.grad.clone() for key, x in model.named_parameters() if x.grad is not None}
    model.zero_grad()
    torch._dynamo.reset()
    have = torch.compile(model, backend="aot_eager")(**inputs).logits
    assert torch.allclose(have, want, atol=1e-4)
    have.sum().backward()
    largest = max(float(x.abs().max()) for x in gradients.values())
    for key, gradient in gradients.items():
        assert (dict(model.named_parameters())[key].grad - gradient).abs().max() <= 1e-4 * largest
    with pytest.raises(Exception, match="flashc (makes the mask|computes the attention) of a model outside of graphs"):
        torch._dynamo.reset()
        torch.compile(model, backend="eager", fullgraph=True)(**inputs)


@pytest.mark.parametrize("name", ["Gemma3"])
def test_compiled_generation(name):
    """transformers compiles the steps of generation with a static cache, on a GPU without being asked."""
    model, inputs = models.make(name), {"input_ids": models.ids(2, 9), "attention_mask": torch.ones(2, 9).long()}
    inputs["attention_mask"][1, :3] = 0
    model.set_attn_implementation(NAME)
    how = dict(do_sample=False, pad_token_id=0, eos_token_id=None, max_new_tokens=16)
    want = model.generate(**inputs, **how)
    torch._dynamo.reset()
    config = transformers.CompileConfig(backend="eager", fullgraph=False, mode=None)
    config._compile_all_devices = True
    have = model.generate(**inputs, **how, cache_implementation="static", compile_config=config)
    assert torch.equal(have, want)


def test_autocast():
    """Under torch.autocast attention has autocast's type, as sdpa."""
    layer = torch.nn.Module()
    layer.is_causal = False
    for queries in (1, 20):
        q, k, v = heads(1, queries, 20)
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            have = door.attention(layer, q, k, v.bfloat16(), None)[0]
        want = door.attention(layer, *[x.bfloat16() for x in (q, k, v)], None)[0]
        assert have.dtype == torch.bfloat16 and torch.equal(have, want)


# --- Contract and refusals --------------------------------------------------------------------------------------------

def test_registration():
    assert NAME == "fcattn" and "flash" not in NAME
    assert transformers.AttentionInterface()[NAME] is door.attention
    assert mu.ALL_MASK_ATTENTION_FUNCTIONS[NAME] is door.make_mask
    assert door.register() == NAME  # Twice is once.
    model = transformers.AutoModelForCausalLM.from_config(models.make("Llama").config, attn_implementation=NAME)
    assert model.config._attn_implementation == NAME


def test_old_versions_are_refused(monkeypatch):
    monkeypatch.setattr(mu, "sdpa_mask", lambda batch_size, cache_position, kv_length, **others: None)
    with pytest.raises(flashc.UnsupportedTypeError, match="whose masks have q_length, q_offset"):
        door.register()


def heads(batch=1, queries=6, keys=6, width=16):
    return [torch.randn(batch, 2, count, width) for count in (queries, keys, keys)]


@pytest.mark.parametrize("width", [4, 12, 20])
def test_head_dimensions_that_no_kernel_takes(width):
    q, k, v = heads(width=width)
    layer = torch.nn.Module()
    have = door.attention(layer, q, k, v, None)[0].transpose(1, 2)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(have, want, atol=1e-6)


def test_a_missing_mask_means_what_it_means_for_sdpa():
    """The layer, or the argument, says whether it is causal; one query sees everything; keys after the queries are a
    static cache's, and not seen."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    for is_causal, given, queries, keys in ((True, None, 6, 6), (False, None, 6, 6), (False, True, 6, 6),
                                            (True, False, 6, 9), (True, None, 1, 9), (True, None, 6, 9)):
        layer = torch.nn.Module()
        layer.is_causal = is_causal
        q, k, v = heads(1, queries, keys)
        have = door.attention(layer, q, k, v, None, is_causal=given)[0]
        want = sdpa_attention_forward(layer, q, k, v, None, is_causal=given)[0]
        assert torch.allclose(have, want, atol=1e-6), (is_causal, given, queries, keys)


def test_batches_of_queries_that_are_one():
    """Learned queries have no batch."""
    q, k, v = heads(3)
    layer = torch.nn.Module()
    layer.is_causal = False
    have = door.attention(layer, q[:1], k, v, None)[0]
    assert torch.equal(have, door.attention(layer, q[:1].repeat(3, 1, 1, 1), k, v, None)[0])


@pytest.mark.parametrize("more, what", [
    ({"sinks": torch.zeros(1, 2, 6, 1)}, "expected attention without sinks"),
    ({"indices": torch.zeros(1)}, "expected attention without indices"),
    ({"block_indices": torch.zeros(1)}, "expected attention without block_indices"),
    ({"head_mask": torch.zeros(1)}, "expected attention without head_mask"),
    ({"output_attentions": True}, "expected output_attentions=False"),
    ({"attention_mask": torch.ones(1, 6)}, r"expected a mask that .* got shape \(1, 6\)"),
    ({"attention_mask": 5}, "expected a mask that .* got 5"),
    ({"position_bias": torch.zeros(6, 6)}, r"expected position_bias of 4 dimensions, got shape \(6, 6\)"),
    ({"attention_mask": reader.make_mask(1, 5, 6)}, "expected 5 queries and at most 6 keys"),
    ({"attention_mask": reader.make_mask(1, 6, 5)}, "expected 6 queries and at most 5 keys"),
    ({"attention_mask": torch.zeros(1, 1, 6, 6, dtype=torch.int16)}, "expected a mask of bool .* got int16"),
    ({"cu_seq_lens_q": torch.tensor([0, 6]), "cu_seq_lens_k": torch.tensor([0, 6]),
      "position_bias": torch.zeros(1, 1, 6, 6)}, "expected a batch of 1 and no position_bias"),
    ({"cu_seq_lens_q": torch.tensor([0, 6]), "cu_seq_lens_k": torch.tensor([0, 6]),
      "attention_mask": torch.zeros(1, 1, 6, 6)}, "expected a mask of positions alone"),
    ({"cu_seq_lens_q": torch.tensor([0, 6]), "cu_seq_lens_k": torch.tensor([0, 6]),
      "attention_mask": reader.make_mask(1, 6, 6, mask_function=mu.chunked_causal_mask_function(3, IDS[0, :1]))},
     "expected a mask of positions alone")])
def test_refusals(more, what):
    arguments = dict(zip(("query", "key", "value"), heads()), attention_mask=None)
    with pytest.raises((flashc.ArgumentError, flashc.UnsupportedTypeError), match=what):
        door.attention(torch.nn.Module(), **{**arguments, **more})


def test_two_rows_of_packed_sequences_are_refused():
    offsets = torch.tensor([0, 6])
    with pytest.raises(flashc.ArgumentError, match="expected a batch of 1 .* got a batch of 2"):
        door.attention(torch.nn.Module(), *heads(2), None, cu_seq_lens_q=offsets, cu_seq_lens_k=offsets)


def test_offsets_together_with_packed_positions():
    """A collator may pass both. The model's mask then knows the sequences."""
    q, k, v = heads(1, 11, 11)
    offsets, ids = torch.tensor([0, 4, 5, 11], dtype=torch.int32), torch.tensor([[0] * 4 + [1] + [2] * 6])
    function = mu.and_masks(mu.packed_sequence_mask_function(ids), mu.causal_mask_function)
    mask = reader.make_mask(1, 11, 11, mask_function=function)
    have = door.attention(torch.nn.Module(), q, k, v, mask, cu_seq_lens_q=offsets, cu_seq_lens_k=offsets)[0]
    i, j = torch.arange(11)[:, None], torch.arange(11)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (ids[0][:, None] == ids[0]))
    assert torch.allclose(have, want.transpose(1, 2), atol=1e-6)


def test_a_mask_is_sent_to_a_device():
    """Hooks of accelerate send the arguments of each layer to its device."""
    mask = reader.make_mask(1, 6, 6)
    assert mask.to("cpu") is mask and mask.to(torch.device("cpu"), non_blocking=True) is mask
    for arguments in ((), (torch.float32,), ("cpu", torch.float32)):
        with pytest.raises(flashc.ArgumentError, match="expected a model that passes its mask on"):
            mask.to(*arguments)


@pytest.mark.parametrize("queries, keys", [(30, 20), (20, 30), (7, 7)])
def test_a_causal_layer_without_a_mask(queries, keys):
    q, k, v = heads(1, queries, keys)
    module = torch.nn.Module()
    module.is_causal = True
    have = door.attention(module, q, k, v, None)[0].transpose(1, 2)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(have, want, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 2, 20, 1), (1, 1, 1, 1), (2, 2, 1, 1), (2, 1, 20, 30), (1, 1, 1, 30)])
def test_biases_broadcast(shape):
    q, k, v = heads(2, 20, 30)
    bias = torch.randn(shape)
    have = door.attention(torch.nn.Module(), q, k, v, torch.zeros(1, 1, 1, 30), position_bias=bias)[0].transpose(1, 2)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(2, 2, 20, 30))
    assert torch.allclose(have, want, atol=1e-5)


@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("window", [None, 3])
def test_offsets_of_packed_sequences(with_mask, window):
    """Offsets, as a collator gives them to FlashAttention, keep sequences apart."""
    q, k, v = heads(1, 11, 11)
    offsets = torch.tensor([0, 4, 5, 11], dtype=torch.int32)
    function = mu.causal_mask_function if window is None else mu.sliding_window_causal_mask_function(window)
    mask = reader.make_mask(1, 11, 11, mask_function=function) if with_mask else None
    have = door.attention(torch.nn.Module(), q, k, v, mask, cu_seq_lens_q=offsets, cu_seq_lens_k=offsets,
                          max_length_q=6, max_length_k=6, sliding_window=window)[0]
    i, j, ids = torch.arange(11)[:, None], torch.arange(11), torch.tensor([0] * 4 + [1] + [2] * 6)
    keep = (j <= i) & (ids[:, None] == ids) & (j > i - (window or 100))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2)
    assert torch.allclose(have, want, atol=1e-6)


def test_models_that_read_their_mask_are_refused():
    mask = reader.make_mask(1, 6, 6)
    for read, what in ((lambda: mask.masked_fill(mask, 0), "reads `masked_fill` of the mask"),
                       (lambda: mask[:, 0], "computes with the mask"), (lambda: mask.to(torch.half), "or converts it"),
                       (lambda: torch.zeros(1, 1, 6, 6) + mask, "computes with the mask"),
                       (lambda: mask == 0, "computes with the mask"),
                       (lambda: mask.kv_num_blocks, "reads `kv_num_blocks`")):
        with pytest.raises((flashc.ArgumentError, AttributeError), match=what):
            read()
    assert repr(mask) == str(mask) == "<flashc's mask (1, 1, 6, 6) of a model>" and mask.ndim == 4
    assert mask == mask and not mask == None and mask != reader.make_mask(1, 6, 6)  # noqa: E711


@pytest.mark.parametrize("name, sizes, error", [
    ("Bloom", dict(hidden_size=64, n_layer=1, n_head=4), flashc.ArgumentError),
    ("Mpt", dict(d_model=64, n_layers=1, n_heads=4), flashc.ArgumentError),
    ("Falcon", dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=4), KeyError)])
def test_models_with_an_attention_of_their_own_are_refused(name, sizes, error):
    config = getattr(transformers, f"{name}Config")(vocab_size=100, **sizes)
    with pytest.raises(error, match="fcattn|computes with the mask"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=NAME)
        model(models.ids(1, 9), attention_mask=torch.ones(1, 9).long())


def test_functions_of_users_that_cannot_be_traced():
    """The error names the line of the user's function."""
    mask = reader.make_mask(1, 20, 20, mask_function=mu.and_masks(CAUSAL, lambda b, h, i, j: i > 3 and j > 3))
    with pytest.raises(flashc.TraceError, match=r"test_transformers_calls.py:\d+.*no truth value"):
        door.attention(torch.nn.Module(), *heads(1, 20, 20), mask)


def test_sparse_attention_is_refused():
    """DeepSeek V3.2 writes the keys that it chooses into an array of the mask."""
    if not hasattr(transformers, "DeepseekV32Config"):
        pytest.skip("this version has no DeepSeek V3.2")
    config = transformers.DeepseekV32Config(**{**models.SIZES, **models._MLA, "index_n_heads": 2, "index_head_dim": 16,
                                               "index_topk": 4})
    model = transformers.DeepseekV32ForCausalLM(config).eval()
    model.set_attn_implementation(NAME)
    with pytest.raises((flashc.ArgumentError, AttributeError), match="expected"):
        model(models.ids(1, 9))


def test_the_contract_has_no_other_arguments():
    """The arguments that transformers' own implementations name are arguments here too."""
    from transformers.integrations.flex_attention import flex_attention_forward
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    own = set(inspect.signature(door.attention).parameters) | set(door._REFUSED)
    for function in (flex_attention_forward, sdpa_attention_forward):
        assert set(inspect.signature(function).parameters) - {"kwargs"} <= own
