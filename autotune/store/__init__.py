"""The policy store: what was measured, for ever; what is best, derived from it.
Must not know how candidates are chosen, compiled or timed."""
