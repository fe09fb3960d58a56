"""What a program is: tile programs, their meaning, phases and nests. Knows nothing of targets or of LLVM."""
