"""Search: from the legal candidates of a program to the fastest one measured.
Must not know how a candidate is emitted, timed or kept."""
