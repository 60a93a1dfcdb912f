"""What vLLM asks of an attention backend: abstract methods, the plugin, the selector on Hopper, the reasons of its
refusals, and the support of CUDA graphs. Needs the classes of vLLM 0.33, and no GPU."""
import inspect

import pytest
import torch
import vllm
import vllm.plugins
from flashc.integrations import _vllm_backend as door
from flashc.integrations import vllm as plugin
from vllm.config.compilation import CUDAGraphMode
from vllm.platforms.cuda import CudaPlatformBase
from vllm.platforms.interface import DeviceCapability
from vllm.v1.attention.backend import AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder, \
    AttentionType
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.attention.selector import AttentionSelectorConfig

LAYER = dict(head_size=128, dtype=torch.bfloat16, kv_cache_dtype="auto", block_size=16)


class Hopper(CudaPlatformBase):
    """A machine with a Hopper GPU, as far as the selector can tell."""
    capability = DeviceCapability(9, 0)

    @classmethod
    def get_device_capability(cls, device_id=0):
        return cls.capability


class Ampere(Hopper):
    capability = DeviceCapability(8, 0)


def select(platform=Hopper, backend=AttentionBackendEnum.CUSTOM, **changes):
    return platform.get_attn_backend_cls(backend, AttentionSelectorConfig(**{**LAYER, **changes}))


@pytest.fixture(autouse=True)
def registered():
    plugin.register()
    yield
    AttentionBackendEnum.CUSTOM.clear_override()


def test_version():
    assert vllm.__version__ == "0.33.0"


def test_plugin(monkeypatch):
    """The installed wheel registers the backend."""
    AttentionBackendEnum.CUSTOM.clear_override()
    monkeypatch.setattr(vllm.plugins, "plugins_loaded", False)
    vllm.plugins.load_general_plugins()
    assert AttentionBackendEnum.CUSTOM.get_class() is door.FlashcBackend


def test_classes():
    backend = AttentionBackendEnum.CUSTOM.get_class()
    for ours, base in ((backend, AttentionBackend), (backend.get_impl_cls(), AttentionImpl),
                       (backend.get_builder_cls(), AttentionMetadataBuilder)):
        assert issubclass(ours, base) and not ours.__abstractmethods__
    assert AttentionBackendEnum[backend.get_name()] is AttentionBackendEnum.CUSTOM


@pytest.mark.parametrize("ours,base", [(door.FlashcImpl, AttentionImpl),
                                       (door.FlashcMetadataBuilder, AttentionMetadataBuilder)])
def test_signatures(ours, base):
    """vLLM may pass every argument that its abstract methods have, by position or by name."""
    for name in base.__abstractmethods__:
        wanted = list(inspect.signature(getattr(base, name)).parameters)
        assert list(inspect.signature(getattr(ours, name)).parameters)[:len(wanted)] == wanted, name


@pytest.mark.parametrize("changes", [
    {}, dict(head_size=64), dict(head_size=256), dict(head_size=72), dict(dtype=torch.float16), dict(block_size=None),
    dict(block_size=48), dict(kv_cache_dtype="bfloat16"), dict(kv_cache_dtype="fp8"), dict(kv_cache_dtype="fp8_e4m3"),
    dict(has_sink=True), dict(has_sliding_window=True), dict(use_mm_prefix=True), dict(use_non_causal=True),
    dict(use_batch_invariant=True), dict(use_kv_connector=True), dict(attn_type=AttentionType.ENCODER_ONLY),
    dict(attn_type=AttentionType.ENCODER),
    dict(kv_cache_dtype="fp8", use_per_head_quant_scales=True, has_sink=True, has_sliding_window=True)])
def test_selected(changes):
    assert select(**changes) == plugin.BACKEND


@pytest.mark.parametrize("changes,reason", [
    (dict(head_size=264), "expected head_size to be a multiple of 8 from 8 to 256, got 264"),
    (dict(head_size=100), "expected head_size to be a multiple of 8 from 8 to 256, got 100"),
    (dict(dtype=torch.float32), "expected dtype to be float16 or bfloat16, got torch.float32"),
    (dict(block_size=24), "expected block_size to be a multiple of 16, got 24"),
    (dict(kv_cache_dtype="fp8_e5m2"),
     "expected kv_cache_dtype to be one of auto, float16, bfloat16, fp8, fp8_e4m3, got fp8_e5m2"),
    (dict(kv_cache_dtype="int8_per_token_head"), "got int8_per_token_head"),
    (dict(kv_cache_dtype="float16"),
     "expected a 16-bit kv cache of the type of the queries, torch.bfloat16, got float16"),
    (dict(kv_cache_dtype="fp8", head_size=72), "expected head_size to be a multiple of 16 for 8-bit kv caches, got 72"),
    (dict(kv_cache_dtype="fp8", use_mm_prefix=True), "partial multimodal token full attention needs packed queries"),
    (dict(kv_cache_dtype="fp8", use_non_causal=True), "non-causal attention by request needs packed queries"),
    (dict(kv_cache_dtype="fp8", use_batch_invariant=True), "batch invariance needs packed queries"),
    (dict(platform=Ampere), "expected a GPU of compute capability 9.0 (Hopper), got 8.0"),
    (dict(use_mla=True), "MLA not supported"), (dict(use_sparse=True), "sparse not supported"),
    (dict(use_dcp=True), "DCP not supported"), (dict(use_pcp=True), "PCP not supported"),
    (dict(use_rswa=True), "R-SWA not supported"),
    (dict(use_adaptive_verification=True), "device-cpu query lens mismatch not supported"),
    (dict(attn_type=AttentionType.ENCODER_DECODER), f"attention type {AttentionType.ENCODER_DECODER} not supported")])
def test_refused(changes, reason):
    with pytest.raises(ValueError) as error:
        select(**changes)
    assert reason in str(error.value)


class Config:
    """The parts of a configuration that decide about graphs."""

    def __init__(self, mode, has_ranges=False):
        self.compilation_config = type("", (), {"cudagraph_mode": mode})
        self.model_config = type("", (), {"is_mm_prefix_lm": has_ranges})


class Spec:
    def __init__(self, dtype):
        self.dtype = dtype


@pytest.mark.parametrize("mode,dtype,has_ranges,is_invariant,support", [
    (CUDAGraphMode.FULL, torch.bfloat16, False, False, AttentionCGSupport.ALWAYS),
    (CUDAGraphMode.FULL, torch.uint8, False, False, AttentionCGSupport.UNIFORM_BATCH),
    (CUDAGraphMode.FULL, torch.bfloat16, True, False, AttentionCGSupport.UNIFORM_BATCH),
    (CUDAGraphMode.FULL_AND_PIECEWISE, torch.bfloat16, False, False, AttentionCGSupport.UNIFORM_BATCH),
    (CUDAGraphMode.FULL_AND_PIECEWISE, torch.bfloat16, False, True, AttentionCGSupport.ALWAYS),
    (CUDAGraphMode.NONE, torch.bfloat16, False, False, AttentionCGSupport.UNIFORM_BATCH)])
def test_graphs(monkeypatch, mode, dtype, has_ranges, is_invariant, support):
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", str(int(is_invariant)))
    assert door.FlashcMetadataBuilder.get_cudagraph_support(Config(mode, has_ranges), Spec(dtype)) == support
