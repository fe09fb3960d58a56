"""From a chosen candidate to machine code: lower, emit, compile. Runs in workers and at the first call of a kernel.
Must not know how candidates are chosen or measured."""
