"""Steps that are built once: kept in a process, and on disk between the workers of a session.

A stored step is bound to the model of the process that loads it: variables of a model are stored
by their names. It does not watch that model for changes, as no step does that was pickled.
"""

import os
import pickle
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

import cloudpickle


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file, model):
        super().__init__(file)
        self.names = {id(variable): variable.name for variable in _variables(model)}

    def persistent_id(self, obj):
        return self.names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, model):
        super().__init__(file)
        self.variables = {variable.name: variable for variable in _variables(model)}

    def persistent_load(self, name):
        return self.variables[name]


def _variables(model):
    return model.value_vars


def dumps(step, model):
    """Return the bytes of a step on a model."""
    buffer = BytesIO()
    _Pickler(buffer, model).dump(step)
    return buffer.getvalue()


def loads(stored, model):
    """Return a stored step, on a model that is written like that of the step."""
    step = _Unpickler(BytesIO(stored), model).load()
    # What PyMC keeps of a step that was built on a model, and the package does not store.
    step._BlockedStep__newargs = ((), {"model": model})
    return step


class Steps:
    """Steps by what they are asked for: the name of a model, that of a method, and settings.

    Parameters
    ----------
    folder
        What the workers of a session share.
    model_of
        Name -> model.
    methods
        Name -> class of a step.
    """

    def __init__(self, folder: Path, model_of, methods):
        self.folder = folder
        self.model_of = model_of
        self.methods = methods
        self._known = {}

    def __call__(self, name, method="TunaMH", **settings):
        """Return the one step; a test that changes more than its chain works on a copy."""
        key = (name, method, *sorted(settings.items()))
        if key not in self._known:
            self._known[key] = self._stored(key) or self._built(key)
        return self._known[key]

    def _stored(self, key):
        file = self._file(key)
        return loads(file.read_bytes(), self.model_of(key[0])) if file.exists() else None

    def _built(self, key):
        name, method, *settings = key
        model = self.model_of(name)
        step = self.methods[method](model=model, **dict(settings))
        with NamedTemporaryFile(dir=self.folder, delete=False) as file:
            file.write(dumps(step, model))
        os.replace(file.name, self._file(key))
        return step

    def _file(self, key):
        return self.folder / f"{sha256(repr(key).encode()).hexdigest()[:20]}.step"
