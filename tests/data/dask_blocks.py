"""What the workers of a cluster compute, in a module that they import at once."""

import os
import time


def slow(block, folder):
    """Return a block, and say which process computes it."""
    with open(os.path.join(folder, str(os.getpid())), "w"):
        time.sleep(2.0)
    return block


def deadly(block):
    """End the process that computes a block."""
    os._exit(1)


def slow_once(block, folder):
    """Return a block after a while, and say which process computes it, as long as few did."""
    if len(os.listdir(folder)) < 4:
        slow(block, folder)
    return block
