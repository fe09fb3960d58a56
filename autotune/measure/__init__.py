"""Measurement: argument data, buffers, the clock, the correctness gate, the race and the worker processes.
Must not know how candidates are chosen, priced or stored."""
