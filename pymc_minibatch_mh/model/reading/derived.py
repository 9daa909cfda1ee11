"""What a model computes from its data alone is data.

A predictor that is standardised, sorted, lagged or masked inside the model mixes rows, but no
parameter is mixed with them: the result is one fixed array, whose rows are as good as given.
"""

import numpy as np
import pytensor
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.xtensor.type import XTensorType

from pymc_minibatch_mh.model.reading.dims import plain
from pymc_minibatch_mh.model.reading.stored_operations import ReadStored


@node_rewriter(None)
def inlined(fgraph: object, node: Apply) -> list[Variable] | None:
    """Open a symbolic operation up, which would otherwise be compiled on its own."""
    return inline_ofg_node(node) if isinstance(node.op, OpFromGraph) else None


#: With symbolic operations opened up, and violated checks of parameters as -inf, as PyMC's samplers
#: read them.
AS_SAMPLED = dfs_rewriter(local_check_parameter_to_ninf_switch, inlined)

#: Compiles nothing, for what is evaluated once.
IN_PYTHON = Mode(linker="py", optimizer=dfs_rewriter(inlined))


def data_behind(variable: Variable) -> list[Variable] | None:
    """Return the data arrays that a variable is computed from, None if not from data alone.

    Stored data, which need not fit into memory, are not computed with as a whole.
    """
    arrays = []
    for above in ancestors([variable]):
        if above.owner is not None:
            if isinstance(above.owner.op, RandomVariable | ReadStored):
                return None
        elif isinstance(above.type, TensorType | XTensorType):
            if not isinstance(above, Constant | SharedVariable):
                return None
            arrays.append(above)
        elif not isinstance(above, Constant):
            return None
    return arrays


def computed(variable: Variable) -> np.ndarray:
    """Return the value of what is computed from data alone."""
    values = pytensor.function([], plain(variable), mode=IN_PYTHON)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values())
