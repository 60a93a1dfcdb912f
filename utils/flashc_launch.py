"""Launches a kernel that flashc compiled: reads the manifest (docs/manifest.md), encodes the tensor maps, calls the
CUDA driver through ctypes. Arrays are PyTorch tensors on the GPU; PyTorch's context and current stream are used."""

import ctypes
import json
import re

import torch

SCHEMA, VERSION = "flashc.manifest", 1

# From the CUDA driver API's enumerations.
JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE = 5, 6
FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE = 8
LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4
L2_PROMOTION_128B = 2
MAP_DTYPES = {"f16": 6, "f32": 7, "f64": 8, "bf16": 9, "i8": 0, "i16": 1, "i32": 3, "i64": 5}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}

TORCH_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64,
                "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "index": torch.int64}
SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i1": ctypes.c_bool, "i8": ctypes.c_int8,
           "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "index": ctypes.c_int64}


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("num_attributes", ctypes.c_uint)]


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute with a cluster dimension as its value."""
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("cluster", ctypes.c_uint * 3),
                ("rest", ctypes.c_char * 52)]


class LaunchError(RuntimeError):
    pass


def load_driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise LaunchError(f"no CUDA driver: {error}") from error


def check(driver, status, what):
    if status != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        message = text.value.decode() if text.value else "unknown error"
        raise LaunchError(f"{what} failed with {status}: {message}")


def read_manifest(path):
    with open(path) as file:
        manifest = json.load(file)
    if manifest.get("schema") != SCHEMA or manifest.get("version") != VERSION:
        raise LaunchError(f"{path}: expected schema {SCHEMA} version {VERSION}, got "
                          f"{manifest.get('schema')} version {manifest.get('version')}")
    return manifest


def evaluate(formula, shapes, sm_count):
    """The value of a grid formula for the arguments' shapes."""
    def extent(match):
        return str(shapes[int(match[1])][int(match[2])])

    text = re.sub(r"arg(\d+)\.dim(\d+)", extent, str(formula))
    if not re.fullmatch(r"(?:\d+|sm_count|ceildiv|mul|min|add|[(), ])+", text):
        raise LaunchError(f"bad grid formula: {formula}")
    functions = {"__builtins__": {}, "sm_count": sm_count, "min": min, "ceildiv": lambda a, b: -(-a // b),
                 "mul": lambda a, b: a * b, "add": lambda a, b: a + b}
    return eval(text, functions)  # Only integers and the functions above passed the test.


def check_shapes(manifest, shapes):
    """The arguments have the manifest's shapes, and the extents that must agree do."""
    def name(index):
        return f"argument {index} ({manifest['arguments'][index]['name']})"

    if len(shapes) != len(manifest["arguments"]):
        raise LaunchError(f"expected {len(manifest['arguments'])} arguments, got {len(shapes)}")
    for index, (argument, shape) in enumerate(zip(manifest["arguments"], shapes)):
        if len(shape) != len(argument["shape"]) or any(e not in (-1, x) for e, x in zip(argument["shape"], shape)):
            raise LaunchError(f"{name(index)}: expected shape {argument['shape']}, got {shape}")
    for pair in manifest.get("requires", []):
        values = [evaluate(formula, shapes, 0) for formula in pair]
        extents = [re.fullmatch(r"arg(\d+)\.dim(\d+)", str(formula)) for formula in pair]
        if values[0] == values[1]:
            continue
        wrong = 1 if extents[1] else 0
        index, dim = map(int, extents[wrong].groups())
        other = re.sub(r"arg(\d+)\.dim(\d+)", lambda m: f"dimension {m[2]} of {name(int(m[1]))}", str(pair[1 - wrong]))
        raise LaunchError(f"{name(index)}: expected extent {values[1 - wrong]} in dimension {dim}, as in {other}, "
                          f"got {values[wrong]}")


def count_parameters(code, kernel):
    """The number of parameters of an entry, by its declaration in PTX; None if it is not there, as in a cubin."""
    entry = re.search(rb"\.entry\s+" + re.escape(kernel.encode()) + rb"\s*(?:\(([^)]*)\)|[{.])", code)
    return entry and (entry[1] or b"").count(b".param")


class Kernel:
    """A loaded kernel. `launch` takes the manifest's arguments in order: tensors, or numbers for scalars."""

    def __init__(self, code, manifest):
        """`code`: the bytes of a PTX text or a cubin."""
        torch.zeros(1, device="cuda")  # Makes PyTorch's context current.
        self.driver, self.manifest = load_driver(), manifest
        self.sm_count = torch.cuda.get_device_properties(0).multi_processor_count
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        keys = (ctypes.c_int * 2)(JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        status = self.driver.cuModuleLoadDataEx(ctypes.byref(self.module), code + b"\0", 2, keys, values)
        check(self.driver, status, f"loading the module ({log.value.decode(errors='replace').strip()})")
        name = manifest["kernel"].encode()
        status = self.driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, name)
        check(self.driver, status, f"finding kernel {manifest['kernel']}")
        self.check_parameters(code)
        shared = manifest["dynamic_shared_memory"]
        if shared > 48 * 1024:
            status = self.driver.cuFuncSetAttribute(self.function, FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE, shared)
            check(self.driver, status, f"asking for {shared} bytes of shared memory")

    def check_parameters(self, code):
        """The kernel takes as many parameters as the manifest lists (which PTX tells), of the same sizes. The driver is
        asked for no parameter that is not there: tools that watch its calls would count an error."""
        arguments, sizes = self.manifest["arguments"], []
        for parameter in self.manifest["parameters"]:
            if parameter["kind"] == "scalar":
                sizes.append(ctypes.sizeof(SCALARS[arguments[parameter["argument"]]["dtype"]]))
            else:
                sizes.append({"tensor_map": 128, "extent": 4}.get(parameter["kind"], 8))
        count = count_parameters(code, self.manifest["kernel"])
        if count not in (None, len(sizes)):
            raise LaunchError(f"kernel {self.manifest['kernel']}: expected {len(sizes)} parameters, got {count}")
        offset, size, actual = ctypes.c_size_t(), ctypes.c_size_t(), []
        for index in range(len(sizes)):
            if self.driver.cuFuncGetParamInfo(self.function, ctypes.c_size_t(index), ctypes.byref(offset),
                                              ctypes.byref(size)) != 0:
                break
            actual.append(size.value)
        if actual != sizes:
            raise LaunchError(f"kernel {self.manifest['kernel']}: the manifest's parameters have {sizes} bytes, "
                              f"the kernel's {actual}")

    def check_alignment(self, parameter, tensor, alignment):
        """The innermost dimension is contiguous; the address and the other strides are multiples of `alignment`."""
        strides = [stride * tensor.element_size() for stride in tensor.stride()]
        if tensor.stride()[-1:] not in ((), (1,)) or any(x % alignment for x in [tensor.data_ptr()] + strides[:-1]):
            raise LaunchError(f"argument {parameter['argument']}: expected a contiguous innermost dimension and an "
                              f"address and strides that are multiples of {alignment} bytes, got strides {strides}")

    def encode_map(self, parameter, tensor):
        """A CUtensorMap, 128 bytes aligned to 64, in a buffer that it keeps alive."""
        self.check_alignment(parameter, tensor, 16)
        rank = tensor.dim()
        strides = [stride * tensor.element_size() for stride in reversed(tensor.stride())]
        storage = ctypes.create_string_buffer(192)
        address = (ctypes.addressof(storage) + 63) // 64 * 64
        dtype = MAP_DTYPES[self.manifest["arguments"][parameter["argument"]]["dtype"]]
        status = self.driver.cuTensorMapEncodeTiled(
            ctypes.c_void_p(address), dtype, rank, ctypes.c_void_p(tensor.data_ptr()),
            (ctypes.c_uint64 * rank)(*reversed(tensor.shape)), (ctypes.c_uint64 * rank)(*strides[1:]),
            (ctypes.c_uint32 * rank)(*parameter["box"]), (ctypes.c_uint32 * rank)(*[1] * rank), 0,
            MAP_SWIZZLES[parameter["swizzle"]], L2_PROMOTION_128B, 0)
        check(self.driver, status, f"encoding the tensor map of argument {parameter['argument']}")
        return storage, address

    def build_parameters(self, arguments):
        """The kernel's parameters as an array of addresses, and the objects behind them."""
        keep, addresses = [], []
        for parameter in self.manifest["parameters"]:
            kind = parameter["kind"]
            argument = arguments[parameter["argument"]] if "argument" in parameter else None
            if kind == "tensor_map":
                storage, address = self.encode_map(parameter, argument)
                keep.append(storage)
                addresses.append(address)
                continue
            if kind == "pointer":
                self.check_alignment(parameter, argument, parameter.get("alignment", 1))
                value = ctypes.c_uint64(argument.data_ptr())
            elif kind == "stride":
                value = ctypes.c_int64(argument.stride(parameter["dim"]))
            elif kind == "extent":
                value = ctypes.c_int32(argument.shape[parameter["dim"]])
            elif kind == "scalar":
                value = SCALARS[self.manifest["arguments"][parameter["argument"]]["dtype"]](argument)
            elif kind == "workspace":
                space = torch.zeros(max(self.manifest["workspace"], 1), dtype=torch.uint8, device="cuda")
                keep.append(space)
                value = ctypes.c_uint64(space.data_ptr())
            else:
                raise LaunchError(f"unknown parameter kind {kind}")
            keep.append(value)
            addresses.append(ctypes.addressof(value))
        return (ctypes.c_void_p * len(addresses))(*addresses), keep

    def prepare(self, arguments):
        """Returns a function that launches on the current stream; call it again and again to time it."""
        manifest = self.manifest
        shapes = [list(a.shape) if torch.is_tensor(a) else [] for a in arguments]
        check_shapes(manifest, shapes)
        grid = [evaluate(formula, shapes, self.sm_count) for formula in manifest["grid"]]
        parameters, keep = self.build_parameters(arguments)
        attribute = LaunchAttribute(id=LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        attribute.cluster[:] = manifest["cluster"]
        config = LaunchConfig(shared_bytes=manifest["dynamic_shared_memory"])
        config.grid[:], config.block[:] = grid, manifest["block"]
        if manifest["cluster"] != [1, 1, 1]:
            config.attributes, config.num_attributes = ctypes.addressof(attribute), 1

        def launch(alive=(keep, attribute, arguments)):
            config.stream = torch.cuda.current_stream().cuda_stream
            status = self.driver.cuLaunchKernelEx(ctypes.byref(config), self.function, parameters, None)
            check(self.driver, status, f"launching {manifest['kernel']} on a grid of {grid}")
        return launch

    def launch(self, *arguments):
        self.prepare(arguments)()
