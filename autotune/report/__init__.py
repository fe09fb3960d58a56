"""What people read: progress while a search runs, and tables, texts and drawings of what it found.
Must not know how anything is found, only the data that describes it."""
