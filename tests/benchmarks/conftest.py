"""Makes `benchmarks` importable, which is a folder of the repository and no part of the installed package."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
