"""What Python says in a process of its own."""

import json
import os
import subprocess
import sys


def printed(*arguments, timeout=None, **environment):
    """Return what a script prints on its last line, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, arguments)], env=os.environ | environment,
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
