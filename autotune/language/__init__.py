"""The kernel language: a function's source becomes a tile program.
Must not know targets, realizations or search."""
