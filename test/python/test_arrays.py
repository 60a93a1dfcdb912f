"""Objects that are accepted as arrays: NumPy arrays, buffers, array interfaces, both versions of DLPack, PyTorch
tensors on the CPU."""
import array
import ctypes
import gc
import sys

import numpy as np
import pytest

import flashc
from flashc._arrays import cuda, dlpack
from flashc._arrays.array import CPU
from flashc._arrays.source import source_of
from reference import aligned, assert_close, attention, inputs


def describe(x, stream=None):
    return source_of(x).describe(x, stream)


# --- Buffers ----------------------------------------------------------------------------------------------------------

def test_buffers(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    views = [memoryview(bytearray(x.tobytes())).cast("f", x.shape) for x in (q, k, v)]
    o, lse = flashc.attention(*views, causal=True, return_lse=True)
    assert isinstance(o, memoryview) and o.format == "f" and o.shape == (1, 2, 9, 8) and lse.shape == (1, 2, 9)
    assert_close((np.asarray(o), np.asarray(lse)), attention(q, k, v, aligned(9, 17, right=0)))


def test_buffer_after_array_of_its_shape(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    q = np.ascontiguousarray(q.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)  # [B, N, H, D] in memory
    o = flashc.attention(q, k, v)
    assert np.array_equal(np.asarray(flashc.attention(*map(memoryview, (q, k, v)))), o)


def test_buffers_without_keys():
    q = memoryview(bytearray(b"\1" * 1024)).cast("f", (1, 2, 16, 8))
    k = np.empty((1, 2, 0, 8), "f4")
    o, lse = flashc.attention(q, k, k, return_lse=True)
    assert not np.asarray(o).any() and np.all(np.asarray(lse) == -np.inf)


def test_read_only_buffer_and_ctypes_array(rng):
    q, k, v = inputs(rng, 1, 2, 2, 4, 4, 8)
    typed = (ctypes.c_float * 8 * 4 * 2 * 1).from_buffer_copy(q.tobytes())
    o = flashc.attention(memoryview(q.tobytes()).cast("f", q.shape), typed, typed)
    assert_close((np.asarray(o), attention(q, q, q)[1]), attention(q, q, q))


def test_half_buffer(rng):
    q, k, v = inputs(rng, 1, 2, 2, 4, 4, 8, dtype=np.float16)
    if sys.version_info < (3, 12):
        with pytest.raises(flashc.ArgumentError, match="expected `out=`: Python cannot make a buffer of format 'e'"):
            flashc.attention(*map(memoryview, (q, k, v)))
    out = np.empty_like(q)
    flashc.attention(*map(memoryview, (q, k, v)), out=out)
    assert_close((out, attention(q, k, v)[1]), attention(q, k, v), "float16")


def test_refused_buffers():
    with pytest.raises(flashc.UnsupportedTypeError, match="format 'f' or 'e'"):
        describe(memoryview(b"\0" * 8).cast("H"))
    with pytest.raises(flashc.ArgumentError, match=r"expected q of 4 dimensions \[B, H, N, D\], got shape \(32,\)"):
        x = array.array("f", [0] * 32)
        flashc.attention(x, x, x)


# --- Array interfaces -------------------------------------------------------------------------------------------------

class Interface:
    """An object that has only an array interface."""

    def __init__(self, x, name="__array_interface__", **changes):
        self.x = x
        interface = dict(x.__array_interface__, **changes)
        setattr(self, name, interface)


def test_array_interface(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    out = np.full(q.shape, np.nan, np.float32)
    flashc.attention(Interface(q), Interface(k), Interface(v), out=Interface(out))
    assert_close((out, attention(q, k, v)[1]), attention(q, k, v))
    with pytest.raises(flashc.ArgumentError, match="`out=`: flashc cannot allocate arrays of type .*Interface"):
        flashc.attention(Interface(q), Interface(k), Interface(v))
    with pytest.raises(flashc.ArgumentError, match=r"out=\(o, lse\): neither the framework of out nor that of q"):
        flashc.attention(Interface(q), Interface(k), Interface(v), out=Interface(out), return_lse=True)
    # The kernel of flashc.compile also computes the log-sum-exp. It must run even though no array for the log-sum-exp
    # can be allocated for this interface.
    out[...] = np.nan
    flashc.compile(q, k, v)(Interface(q), Interface(k), Interface(v), out=Interface(out))
    assert_close((out, attention(q, k, v)[1]), attention(q, k, v))


def on_gpu(x, **changes):
    """Describes the array as if its memory were on GPU 3."""
    fake = Interface(x, "__cuda_array_interface__", **{"version": 3, "stream": None, **changes})
    fake.device = type("Device", (), {"id": 3})()
    return fake


def test_cuda_array_interface():
    x = np.zeros((2, 3, 5, 8), np.float16)
    got = describe(on_gpu(x))
    assert got[:5] == (x.ctypes.data, (2, 3, 5, 8), (120, 40, 8, 1), "f16", 3) and got.stream is None
    got = describe(on_gpu(x, strides=(240, 16, 48, 2), stream=7, data=(4096, True)))
    assert got.strides == (120, 8, 24, 1) and got.stream == 7 and got.readonly and got.address == 4096
    for changes, error, words in (
            ({"typestr": "<c8"}, flashc.UnsupportedTypeError, "typestr '<c8'"),
            ({"typestr": "<V2"}, flashc.UnsupportedTypeError, "typestr '<V2'"),
            ({"typestr": ">f2"}, flashc.UnsupportedTypeError, "byte order"),
            ({"strides": (240, 16, 48, 3)}, flashc.ArgumentError, "whole elements of 2 bytes"),
            ({"mask": object()}, flashc.ArgumentError, "valid elements"),
            ({"data": None}, flashc.ArgumentError, "expected an address"),
            ({"stream": 0}, flashc.ArgumentError, "stream other than 0")):
        with pytest.raises(error, match=words):
            describe(on_gpu(x, **changes))


def test_bfloat16_of_an_interface():
    fake = on_gpu(np.zeros((4, 8), np.float16), typestr="<V2")
    fake.dtype = "bfloat16"
    assert describe(fake).dtype == "bf16"


class Driver:
    """A CUDA driver that records the streams that are waited for."""

    def __init__(self):
        self.waited = []

    def cuStreamSynchronize(self, stream):
        self.waited.append(stream.value)
        return 0

    def cuPointerGetAttribute(self, out, attribute, address):
        assert attribute.value == 9
        out._obj.value = 5
        return 0


def test_gpu_of_an_address(monkeypatch):
    monkeypatch.setattr(cuda, "_driver", Driver())
    fake = on_gpu(np.zeros((4, 8), np.float16))
    del fake.device
    assert describe(fake).device == 5


def test_waits_for_other_streams(monkeypatch):
    monkeypatch.setattr(cuda, "_driver", Driver())
    x = np.zeros((1, 1, 8, 8), np.float16)
    with pytest.raises(flashc.GPUError):  # There is no GPU 3 here.
        flashc.attention(on_gpu(x, stream=7), on_gpu(x, stream=7), on_gpu(x, stream=9), out=on_gpu(x))
    assert cuda._driver.waited == [9]
    with pytest.raises(flashc.GPUError):
        flashc.attention(on_gpu(x, stream=1), on_gpu(x), on_gpu(x, stream=1), out=on_gpu(x))
    assert cuda._driver.waited == [9]


def test_no_driver():
    x = np.zeros((1, 1, 8, 8), np.float16)
    if flashc.devices():
        pytest.skip("there is a GPU")
    with pytest.raises(flashc.GPUError, match="libcuda|driver"):
        flashc.attention(on_gpu(x), on_gpu(x), on_gpu(x), out=on_gpu(x))


# --- DLPack -----------------------------------------------------------------------------------------------------------

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


class Exporter:
    """Exports a NumPy array through a capsule of either DLPack version, and counts what happens to the capsule."""

    def __init__(self, x, versioned, code=2, bits=None, device=(1, 0), compact=False, flags=0, major=1, lanes=1):
        self.x, self.versioned, self.device = x, versioned, device
        self.deleted = self.destroyed = 0
        self.streams = []
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        shape = (ctypes.c_int64 * x.ndim)(*x.shape)
        strides = (ctypes.c_int64 * x.ndim)(*(stride // x.itemsize for stride in x.strides))
        # The byte offset of the first element is 8.
        tensor = dlpack._DLTensor(x.ctypes.data - 8, *device, x.ndim, code, bits or 8 * x.itemsize, lanes, shape,
                                  None if compact else strides, 8)
        self.managed = dlpack._DLManagedTensorVersioned(major, 0, None, None, flags, tensor) if versioned \
            else dlpack._DLManagedTensor(tensor, None, None)
        self.keep = shape, strides

        # If no consumer took the capsule, the destructor calls the deleter.
        @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
        def destructor(capsule):
            self.destroyed += 1
            if _valid(capsule, self.name):
                self.deleted += 1
        self.destructor = destructor

    def __dlpack_device__(self):
        return self.device

    def capsule(self):
        return _new_capsule(ctypes.addressof(self.managed), self.name,
                            ctypes.cast(self.destructor, ctypes.c_void_p).value)


class Versioned(Exporter):
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert max_version[0] >= 1
        self.streams.append(stream)
        return self.capsule()


class Unversioned(Exporter):
    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.capsule()


@pytest.mark.parametrize("kind", [Versioned, Unversioned])
def test_dlpack(rng, kind):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    strided = np.ascontiguousarray(k.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    exporters = [kind(q, kind is Versioned, compact=True), kind(strided, kind is Versioned), kind(v, kind is Versioned)]
    out = np.full(q.shape, np.nan, np.float32)
    flashc.attention(*exporters, out=out)
    assert_close((out, attention(q, k, v)[1]), attention(q, k, v))
    gc.collect()
    for exporter in exporters:
        assert exporter.deleted == exporter.destroyed == 1 and exporter.streams == [None]


def test_dlpack_deletes_once_when_refused(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    exporters = [Versioned(q, True), Versioned(k, True), Versioned(v[:, :, :3], True)]
    with pytest.raises(flashc.ArgumentError, match="one length Nk"):
        flashc.attention(*exporters, out=np.empty_like(q))
    gc.collect()
    assert [exporter.deleted for exporter in exporters] == [1, 1, 1]


def test_dlpack_stream():
    x = np.zeros((1, 1, 8, 8), np.float16)
    q = on_gpu(x, stream=77)
    k, v = (Versioned(x, True, device=(2, 3)) for _ in range(2))
    with pytest.raises(flashc.GPUError):
        flashc.attention(q, k, v, out=on_gpu(x))
    assert k.streams == v.streams == [77]
    got = describe(Unversioned(x, False, device=(13, 1)))
    assert got.device == 1 and got.stream == 1


def test_dlpack_elements():
    x = np.zeros(8, np.float16)
    for code, bits, name in ((4, 16, "bf16"), (2, 16, "f16"), (0, 64, "i64"), (6, 8, "i1"), (1, 8, "u8")):
        assert describe(Versioned(x, True, code=code, bits=bits)).dtype == name
    assert describe(Versioned(x, True, flags=1)).readonly
    # Pinned memory counts as memory of the host.
    assert describe(Versioned(x, True, device=(3, 0))).device == CPU
    for exporter, error, words in ((Versioned(x, True, code=5, bits=64), flashc.UnsupportedTypeError, "code 5, 64"),
                                   (Versioned(x, True, lanes=2), flashc.UnsupportedTypeError, "2 lanes"),
                                   (Versioned(x, True, device=(8, 0)), flashc.ArgumentError, "DLPack device type 8"),
                                   (Versioned(x, True, major=2), flashc.ArgumentError, "DLPack of version 1, got")):
        with pytest.raises(error, match=words):
            describe(exporter)


def test_dlpack_capsule_that_was_used():
    exporter = Versioned(np.zeros(8, np.float16), True)
    exporter.name = b"used_dltensor_versioned"
    with pytest.raises(flashc.ArgumentError, match="a new capsule"):
        describe(exporter)


class OnlyDLPack:
    """Exports NumPy's own capsules."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, stream=None):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_dlpack_of_numpy(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8, dtype=np.float16)
    out = np.full(q.shape, np.nan, np.float16)
    flashc.attention(*map(OnlyDLPack, (q, k, v)), out=out)
    assert_close((out, attention(q, k, v)[1]), attention(q, k, v), "float16")


def test_jax_is_told_what_to_do():
    kind = type("Array", (OnlyDLPack,), {"__module__": "jaxlib.xla_extension"})
    x = np.zeros((1, 1, 8, 8), np.float32)
    with pytest.raises(flashc.ArgumentError, match="expected `out=`: JAX's arrays cannot be written"):
        flashc.attention(kind(x), kind(x), kind(x))


class Namespaced(OnlyDLPack):
    """An array that follows the array API standard."""

    device = "cpu"

    @property
    def dtype(self):
        return self.x.dtype

    def __array_namespace__(self):
        class namespace:
            float32 = np.float32

            @staticmethod
            def empty(shape, dtype, device):
                assert device == "cpu"
                return Namespaced(np.full(shape, np.nan, dtype))
        return namespace


def test_array_api_allocates(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    o, lse = flashc.attention(*map(Namespaced, (q, k, v)), return_lse=True)
    assert_close((o.x, lse.x), attention(q, k, v))


# --- PyTorch on the CPU -----------------------------------------------------------------------------------------------

def test_torch(rng):
    torch = pytest.importorskip("torch")
    for dtype in ("float32", "float16", "bfloat16"):
        q, k, v = (torch.from_numpy(x).to(getattr(torch, dtype)) for x in inputs(rng, 2, 4, 2, 19, 33, 16))
        o, lse = flashc.attention(q, k, v, causal=True, enable_gqa=True, return_lse=True)
        assert o.dtype == q.dtype and lse.dtype == torch.float32
        want = attention(*(x.float().numpy() for x in (q, k, v)), aligned(19, 33, right=0))
        assert_close((o.float().numpy(), lse.numpy()), want, dtype)
        keep = torch.rand(2, 1, 19, 33) < 0.5
        bias = torch.randn(4, 19, 1).to(q.dtype)
        got = flashc.attention(q, k, v, mask=keep, score=lambda s, b, h, i, j: torch.tanh(s) + bias[h, i, 0],
                               enable_gqa=True, return_lse=True)
        want = attention(*(x.float().numpy() for x in (q, k, v)), lambda b, h, i, j: keep.numpy(),
                         lambda s, b, h, i, j: np.tanh(s) + bias.float().numpy())
        assert_close((got[0].float().numpy(), got[1].numpy()), want, dtype)


def test_torch_functions_of_positions(rng):
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(x) for x in inputs(rng, 1, 2, 2, 19, 33, 8))
    width = torch.tensor(7)
    got = flashc.attention(q, k, v, mask=lambda b, h, i, j: torch.logical_and((i - j).abs() < width, j > 0),
                           score=lambda s, b, h, i, j: torch.where(i > j, s, 2 * s), return_lse=True)
    want = attention(q, k, v, lambda b, h, i, j: (abs(i - j) < 7) & (j > 0),
                     lambda s, b, h, i, j: np.where(i > j, s, 2 * s))
    assert_close(got, want)


def test_torch_result_lies_as_q(rng):
    torch = pytest.importorskip("torch")
    q = torch.randn(2, 9, 4, 8).transpose(1, 2)
    o = flashc.attention(q, q, q)
    assert o.shape == q.shape and o.stride() == q.stride()
    assert_close((o, attention(q, q, q)[1]), attention(q, q, q))


def test_torch_out_from_numpy(rng):
    torch = pytest.importorskip("torch")
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    out = torch.empty(q.shape)
    assert flashc.attention(q, torch.from_numpy(k), v, out=out) is out
    assert_close((out, attention(q, k, v)[1]), attention(q, k, v))


def test_torch_refusals():
    torch = pytest.importorskip("torch")
    q = torch.zeros(1, 1, 8, 8)
    grad = torch.zeros(1, 1, 8, 8, requires_grad=True)
    with pytest.raises(flashc.Error, match=r"expected k without gradients.*torch.no_grad\(\).*detach\(\)"):
        flashc.attention(q, grad, q, out=torch.zeros(1, 1, 8, 8))
    slopes, bias = torch.zeros(1, requires_grad=True), torch.zeros(1, 1, 8, 8, requires_grad=True)
    for functions in ({"score": lambda s, b, h, i, j: s + slopes[h]}, {"mask": bias}):
        with pytest.raises(flashc.Error, match="expected an array that the mask or the score reads without gradients"):
            flashc.attention(q, q, q, out=torch.zeros(1, 1, 8, 8), **functions)
        with torch.no_grad():
            flashc.attention(q, q, q, **functions)
    with torch.no_grad():
        flashc.attention(q, grad, q)
    with pytest.raises(flashc.ArgumentError, match="expected a dense tensor"):
        flashc.attention(q.to_sparse(), q, q)
    with pytest.raises(flashc.UnsupportedTypeError, match="got torch.complex64"):
        flashc.attention(q.to(torch.complex64), q, q)
    with pytest.raises(flashc.ArgumentError, match="CUDA device or the CPU, got one on 'meta'"):
        flashc.attention(q.to("meta"), q, q)
