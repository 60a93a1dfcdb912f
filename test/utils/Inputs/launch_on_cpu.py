"""Compiles and launches as gpu_worker.py does, but for the CPU: launch_on_cpu.py UTILS, with stub/ in PYTHONPATH."""
import array
import sys

sys.path.insert(0, sys.argv[1])
import flashc  # noqa: E402
import gpu_check  # noqa: E402
import gpu_worker  # noqa: E402

Q, O, LSE = "tensor<?x2x?x2xf32>", "tensor<?x2x?x2xf32>", "tensor<?x2x?xf32>"
TEXT = f"""func.func @two(%q: {Q}, %k: {Q}, %v: {Q}) -> ({O}, {LSE}) {{
  %o, %lse = flash.attention ins(%q, %k, %v : {Q}, {Q}, {Q}) {{scale = 1.0 : f32}} -> {O}, {LSE}
  return %o, %lse : {O}, {LSE}
}}
"""


class Tensor:
    """The attributes of a tensor that a launch reads."""

    def __init__(self, shape, strides, values):
        self.sizes, self.strides, self.values = shape, strides, array.array("f", values)

    @property
    def shape(self):
        return self.sizes

    def stride(self):
        return self.strides

    def dim(self):
        return len(self.sizes)

    def data_ptr(self):
        return self.values.buffer_info()[0]


def launch(v_heads=2):
    """Launches attention of two queries to one key, so that o is v. q and o are [B, N, H, D] in memory. Prints o, or
    the error."""
    swapped, plain, nan = (8, 2, 4, 1), (4, 2, 2, 1), float("nan")
    o = Tensor((1, 2, 2, 2), swapped, [nan] * 8 + [7])
    tensors = [Tensor((1, 2, 2, 2), swapped, [0] * 8), Tensor((1, 2, 1, 2), plain, [0] * 4),
               Tensor((1, v_heads, 1, 2), plain, [1, 2, 3, 4]), o, Tensor((1, 2, 2), (4, 2, 1), [nan] * 4)]
    try:
        gpu_worker.launch(loaded, tensors)
        print("o", list(o.values), "lse", list(tensors[4].values))
    except flashc.Error as error:
        print(f"{type(error).__name__}: {error}")


def count_arrays(lse):
    """Prints the names of the kernel's arguments, and how many arrays and guards a launch has, with or without the
    log-sum-exp."""
    spec, worker = gpu_check.kernel_spec(2, 2, "f32", True, 2, 2, lse), gpu_worker.Worker()
    gpu_worker.DTYPES["f32"] = None
    inputs, outputs, guards = worker.arrays({"spec": spec, "batch": 1, "nq": 2, "nk": 1}, "bhnd")
    _, manifest = worker.kernel({"text": gpu_check.mlir_source(spec), "target": "cpu", "schedule": None})
    print(spec["name"], [argument["name"] for argument in manifest["arguments"]], len(inputs + outputs), len(guards))


loaded, manifest = gpu_worker.Worker().kernel({"text": TEXT, "target": "cpu", "schedule": None})
print(manifest["kernel"], [argument["name"] for argument in manifest["arguments"]])
launch()
launch(v_heads=1)
count_arrays(lse=True)
count_arrays(lse=False)
