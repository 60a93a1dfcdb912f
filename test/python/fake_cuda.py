"""A stand-in for torch.cuda, for tests of timing code without a GPU: it has a clock of its own, and a device without
properties."""

import types


class Event:
    """A CUDA event. Each recorded event is 10 ms later than the one before."""
    clock = 0

    def __init__(self, enable_timing=False):
        self.time = None

    def record(self):
        Event.clock += 1
        self.time = Event.clock

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 10.0 * (end.time - self.time)


def install(monkeypatch, torch):
    properties = types.SimpleNamespace(name="Some GPU", multi_processor_count=1, L2_cache_size=1)
    for name, value in {"get_device_properties": lambda device: properties, "Event": Event,
                        "synchronize": lambda: None, "empty_cache": lambda: None, "is_available": lambda: True,
                        "current_device": lambda: 0}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: None)  # PyTorch's function asks real devices


def install_graphs(monkeypatch, decode):
    """Replaces the CUDA graphs of the decoding benchmark, the module `decode`. Returns the list of contenders for which
    a graph was made. A call of the n-th contender takes n ms."""
    made = []

    class Graph:
        def __init__(self, contender):
            contender.run(1)
            made.append(contender)
            self.milliseconds = float(len(made))

        def measure(self, replays):
            return replays * self.milliseconds

    monkeypatch.setattr(decode, "Graph", Graph)
    return made
