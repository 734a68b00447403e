"""Figures of docs/performance.md: `python -m bench`. Nothing here is part of the product.

The control plane that some of them need is the one of the tests, hence their folder on the path.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))
