"""Captures CUDA graphs and times them in turns."""
from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, List, Tuple

import torch

#: A graph, and the number of calls that it has.
Graph = Tuple[torch.cuda.CUDAGraph, int]


def capture(run: Callable[[], Any], launches: int = 5) -> Graph:
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            run()
    return graph, launches


def milliseconds(graph: Graph) -> float:
    """Returns the milliseconds of one call of a graph."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph[0].replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / graph[1]


def times_of(graphs: Dict[Any, Graph], turns: int = 15) -> Dict[Any, List[float]]:
    times: Dict[Any, List[float]] = {name: [] for name in graphs}
    for _ in range(turns):
        for name, graph in graphs.items():
            times[name].append(milliseconds(graph))
    return times


def medians(graphs: Dict[Any, Graph], turns: int = 15) -> Dict[Any, float]:
    return {name: statistics.median(times) for name, times in times_of(graphs, turns).items()}
