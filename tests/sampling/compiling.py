"""Who compiles: no thread but the main one of a process may ask PyTensor to, or change what it is
configured by, which belongs to the whole process."""

import threading

import pytensor
from pytensor.configparser import ConfigParam

#: What was asked for before anything was watched.
_COMPILE, _SET = pytensor.function, ConfigParam.__set__


def _require_main_thread(what):
    if threading.current_thread() is not threading.main_thread():
        raise AssertionError(f"a thread {what}")


def _function(*inputs, **settings):
    _require_main_thread("compiles a function of PyTensor")
    return _COMPILE(*inputs, **settings)


def _set(self, config, value):
    _require_main_thread(f"changes PyTensor's {self.name!r}")
    _SET(self, config, value)


def watch():
    """Have every other thread fail by an AssertionError, in this process."""
    pytensor.function, ConfigParam.__set__ = _function, _set


def stop_watching():
    """Let every thread do as it likes."""
    pytensor.function, ConfigParam.__set__ = _COMPILE, _SET


class Watch:
    """Watches the process that it is unpickled in: an attribute of what is sent there."""

    def __reduce__(self):
        return _watching, ()


def _watching():
    watch()
    return Watch()
