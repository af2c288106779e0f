"""The parts that all benchmarks share: servers, processes with their costs, checked runs, figures."""
