"""diffusers' models after `apply` on a GPU, in bf16: errors compared with those of their own attention, for which f32
is the reference. Skipped where there is no GPU, or no diffusers."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
diffusers = pytest.importorskip("diffusers")

from flashc.integrations import diffusers as door  # noqa: E402

BF16 = torch.bfloat16


def flux():
    return diffusers.FluxTransformer2DModel(
        in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=128, num_attention_heads=3,
        joint_attention_dim=64, pooled_projection_dim=64, axes_dims_rope=(16, 56, 56))


def flux_inputs(batch, image, text):
    def random(*shape):
        return torch.randn(shape, device="cuda").to(BF16).float()
    return dict(hidden_states=random(batch, image, 16), encoder_hidden_states=random(batch, text, 64),
                pooled_projections=random(batch, 64), timestep=torch.full((batch,), 0.5, device="cuda"),
                img_ids=random(image, 3), txt_ids=random(text, 3))


def unet():
    return diffusers.UNet2DConditionModel(
        sample_size=32, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=64, attention_head_dim=2, norm_num_groups=8)


def unet_inputs(batch, image, text):
    mask = torch.arange(text, device="cuda") < torch.arange(1, batch + 1, device="cuda")[:, None] * text // batch
    return dict(sample=torch.randn(batch, 4, 34, 34, device="cuda").to(BF16).float(), timestep=500,
                encoder_hidden_states=torch.randn(batch, text, 64, device="cuda").to(BF16).float(),
                encoder_attention_mask=mask)


def run(model, dtype, inputs, weight):
    """Returns the result and the gradients of the parameters of attention layers, in f32."""
    model.to(dtype).zero_grad()
    result = model(**{name: x.to(dtype) if torch.is_tensor(x) and x.is_floating_point() else x
                      for name, x in inputs.items()}).sample
    (result.float() * weight).sum().backward()
    found = {name: x.grad.float() for name, x in model.named_parameters() if ".to_" in name and x.grad is not None}
    return {"result": result.detach().float(), **found}


@pytest.mark.parametrize("make, inputs_of", [(flux, flux_inputs), (unet, unet_inputs)])
@pytest.mark.parametrize("batch, image, text", [(1, 300, 77), (2, 1024, 130)])
def test_errors_are_about_those_of_the_models_attention(make, inputs_of, batch, image, text):
    torch.manual_seed(batch)
    model, inputs = make().to("cuda").eval(), inputs_of(batch, image, text)
    for x in model.parameters():
        x.data = x.data.to(BF16).float()
    with torch.no_grad():
        weight = torch.randn_like(model(**inputs).sample)
    want = run(model, torch.float32, inputs, weight)
    own = run(model, BF16, inputs, weight)
    door.apply(model)
    found = run(model, BF16, inputs, weight)
    assert set(found) == set(want) and len(want) > 4
    for name, x in found.items():
        error, own_error = ((y - want[name]).norm() for y in (x, own[name]))
        assert error <= 1.5 * own_error + 1e-3 * want[name].norm(), f"{name}: {error} and {own_error}"
    door.restore(model)
    assert torch.equal(run(model, BF16, inputs, weight)["result"], own["result"])


def test_compiled_and_captured():
    """torch.compile makes one graph, and a CUDA graph replays a step with other values."""
    model, inputs = flux().to("cuda", BF16).eval().requires_grad_(False), flux_inputs(1, 256, 33)
    inputs = {name: x.to(BF16) for name, x in inputs.items()}
    door.apply(model)
    want = model(**inputs).sample
    found = torch.compile(model, fullgraph=True)(**inputs).sample
    assert (found - want).abs().mean() <= 0.05 * want.abs().mean()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = model(**inputs).sample
    inputs["hidden_states"].copy_(torch.randn_like(inputs["hidden_states"]))
    want = model(**inputs).sample
    graph.replay()
    assert torch.equal(o, want)
