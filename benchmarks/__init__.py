"""Comparisons of tuned kernels with numpy and the optional peers, run as `python -m benchmarks`.
The package never imports this folder; this folder changes nothing in the package."""
