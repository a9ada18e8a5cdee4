"""The peer's program of this benchmark, which dense_ops asks too."""

import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
WHERE = ("import torch, pathlib; "
         "print(pathlib.Path(torch.__file__).parent, int(torch._C._GLIBCXX_USE_CXX11_ABI), torch.__version__)")


def compiled(python, folder):
    """The program, in a folder, against the PyTorch of an interpreter, and its version."""
    place, abi, version = subprocess.run([python, "-c", WHERE], check=True, capture_output=True, text=True).stdout.split()
    program = pathlib.Path(folder, "libtorch_contender")
    subprocess.run(["c++", "-std=c++20", "-O2", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-isystem{place}/include",
                    f"-isystem{place}/include/torch/csrc/api/include", HERE / "libtorch_contender.cpp", "-o", program,
                    f"-L{place}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{place}/lib",
                    "-Wl,--allow-shlib-undefined"], check=True)
    return program, version
