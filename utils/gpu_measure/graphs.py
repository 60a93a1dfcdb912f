"""Captures CUDA graphs and times them in turns."""
from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, List, Tuple

import torch

#: A CUDA graph, and the number of calls in it.
Graph = Tuple[torch.cuda.CUDAGraph, int]


def capture(run: Callable[[], Any], launches: int = 5, warm_up: int = 2) -> Graph:
    """Returns a graph of `launches` calls, captured after `warm_up` calls."""
    for _ in range(warm_up):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            run()
    return graph, launches


def elapsed(run: Callable[[], Any]) -> float:
    """Returns the milliseconds that the GPU takes for a call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def times_of(graphs: Dict[Any, Graph], turns: int = 15) -> Dict[Any, List[float]]:
    """Returns the milliseconds of a call of each graph, for each turn."""
    times: Dict[Any, List[float]] = {name: [] for name in graphs}
    for _ in range(turns):
        for name, (graph, launches) in graphs.items():
            times[name].append(elapsed(graph.replay) / launches)
    return times


def medians(graphs: Dict[Any, Graph], turns: int = 15) -> Dict[Any, float]:
    return {name: statistics.median(times) for name, times in times_of(graphs, turns).items()}
