"""The figures of docs/performance.md: `python -m bench`. This package is not part of JobFlow.

Some figures need the control plane of the tests, so their folder is on the path.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))
