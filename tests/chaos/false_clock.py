"""Runs a Python program with a clock that is wrong: false_clock.py FILE PROGRAM [ARGUMENT…]

FILE has the seconds by which `time.time` is ahead.
"""

import runpy
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    _, file, program, *arguments = sys.argv
    ahead, right = float(Path(file).read_text()), time.time
    time.time = lambda: right() + ahead
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
