"""A wheel of the libraries by setuptools."""

import warnings

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from torch.utils.cpp_extension import (
    CUDA_HOME,
    BuildExtension,
    CppExtension,
    CUDAExtension,
)

TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"  # 2.10
CXX = ["-O2", "-fvisibility=hidden", "-fvisibility-inlines-hidden", TARGET]

# py_limited_api leaves out libtorch_python, and the lists of libraries the rest that
# is not used. In the list for CUDA, its run time is in the extension itself.
extensions = [CppExtension("scale_ops.libscale", ["scale.cpp"],
                           extra_compile_args={"cxx": CXX}, py_limited_api=True)]
extensions[0].libraries = ["torch_cpu"]
if CUDA_HOME:
    # Each compiler has its own list, and both need both macros and the visibility.
    extensions.append(CUDAExtension(
        "scale_ops.libscale_cuda", ["scale.cu"], py_limited_api=True,
        extra_compile_args={"cxx": [*CXX, "-DUSE_CUDA"],
                            "nvcc": ["-O2", "-Xcompiler=-fvisibility=hidden",
                                     TARGET, "-DUSE_CUDA"]}))
    extensions[1].libraries = [
        "torch_cpu", "torch_cuda", "cudart_static", "rt", "dl", "pthread"]
else:
    warnings.warn("no CUDA toolkit, or a torch for the CPU: built without CUDA",
                  stacklevel=2)


class Wheel(bdist_wheel):
    def get_tag(self):
        """One wheel for every Python 3: the libraries use no symbol of it."""
        return "py3", "none", super().get_tag()[2]


setup(
    packages=["scale_ops"],
    ext_modules=extensions,
    # Without the suffix the files are libscale.so and libscale_cuda.so.
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True),
              "bdist_wheel": Wheel},
)
