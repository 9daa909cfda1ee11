"""Compile the library when a wheel is built, or when the package is installed from a checkout.

The environment variable MH_TARGET names another platform to compile for, by zig, which is the
Python package ziglang: see TARGETS, and .ci/wheels.
"""

import os
import platform
import sys
import sysconfig
from pathlib import Path
from runpy import run_path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path(__file__).parent / "pymc_minibatch_mh" / "native"
#: Oldest system that a library for macOS runs on.
MACOS = "11.0"
#: Zig's name of a platform -> tag of the wheel, and the platform as Python calls it.
TARGETS = {
    "x86_64-linux-gnu.2.17": ("manylinux_2_17_x86_64", "linux"),
    "aarch64-linux-gnu.2.17": ("manylinux_2_17_aarch64", "linux"),
    "x86_64-linux-musl": ("musllinux_1_2_x86_64", "linux"),
    "aarch64-linux-musl": ("musllinux_1_2_aarch64", "linux"),
    "x86_64-macos.11.0": ("macosx_11_0_x86_64", "darwin"),
    "aarch64-macos.11.0": ("macosx_11_0_arm64", "darwin"),
    "x86_64-windows-gnu": ("win_amd64", "win32"),
    "aarch64-windows-gnu": ("win_arm64", "win32"),
}


class NativeHook(BuildHookInterface):
    """The hook of wheels, editable ones too."""

    def dependencies(self) -> list[str]:
        """Ask for zig's compiler where the machine has none."""
        own = next(run_path(str(NATIVE / "compiler.py"))["find_compilers"](), None)
        return [] if own and "MH_TARGET" not in os.environ else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the library into the wheel."""
        compiler = run_path(str(NATIVE / "compiler.py"))
        target = os.environ.get("MH_TARGET")
        if target is None:
            os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", MACOS)
            made, tag = compiler["build"](), own_tag()
        else:
            tag, system = TARGETS[target]
            folder = NATIVE / ".objects" / target  # not beside the library of this machine
            folder.mkdir(parents=True, exist_ok=True)
            made = compiler["compile_library"](folder, compiler["zig_compiler"](target), system)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        if version != "editable":
            build_data["force_include"][str(made)] = f"pymc_minibatch_mh/native/{made.name}"


def own_tag() -> str:
    """Return the tag of this platform. A universal Python's library is for one processor alone."""
    if sys.platform == "darwin":
        return f"macosx_{MACOS.replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
