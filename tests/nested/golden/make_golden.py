"""Writes the golden files of interop_test.cpp: ragged data as PyTorch and Arrow lay them out, and the components that they mean.

Needs torch and pyarrow, the test does not: the files are committed. Each line is `name dtype [sizes]: elements`.
"""

import pathlib

import pyarrow
import torch

FOLDER = pathlib.Path(__file__).parent
COMPONENTS = [torch.arange(6.0).reshape(3, 2), torch.empty(0, 2), torch.arange(10.0, 14.0).reshape(2, 2)]


def line(name, tensor):
    tensor = torch.as_tensor(tensor)
    elements = " ".join(f"{value:g}" for value in tensor.flatten().tolist())
    return f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}: {elements}\n"


def write(stem, origin, arrays, components):
    text = f"# {origin}\n" + "".join(line(name, tensor) for name, tensor in arrays.items())
    text += "".join(line(f"component{b}", tensor) for b, tensor in enumerate(components))
    (FOLDER / f"{stem}.txt").write_text(text)


def torch_files():
    version = f"PyTorch {torch.__version__.split('+')[0]}"
    jagged = torch.nested.nested_tensor(COMPONENTS, layout=torch.jagged)
    write("torch_jagged", f"{version}, layout=torch.jagged", {"values": jagged.values(), "offsets": jagged.offsets()},
          jagged.unbind())

    padded = torch.arange(24.0).reshape(3, 4, 2)
    holes = torch.nested.narrow(padded, 1, torch.tensor([1, 0, 2]), torch.tensor([2, 0, 1]), layout=torch.jagged)
    arrays = {"values": holes.values(), "offsets": holes.offsets(), "lengths": holes.lengths()}
    write("torch_jagged_holes", f"{version}, torch.nested.narrow of a padded batch", arrays, holes.unbind())

    strided = torch.nested.nested_tensor([torch.arange(6.0).reshape(2, 3), torch.empty(0, 4),
                                          torch.arange(10.0, 14.0).reshape(4, 1)], layout=torch.strided)
    for stem, nested in (("torch_strided", strided), ("torch_strided_transposed", strided.transpose(1, 2))):
        arrays = {
            "buffer": nested.values().flatten(),
            "sizes": nested._nested_tensor_size(),
            "strides": nested._nested_tensor_strides(),
            "offsets": nested._nested_tensor_storage_offsets(),
        }
        write(stem, f"{version}, layout=torch.strided", arrays, nested.unbind())

    lengths = torch.tensor([len(component) for component in COMPONENTS])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    arrays = {"values": torch.cat(COMPONENTS), "cu_seqlens": starts, "max_seqlen": lengths.max()}
    write("flash_varlen", "cu_seqlens and max_seqlen as variable-length attention takes them", arrays, COMPONENTS)


def arrow_files():
    pairs = pyarrow.list_(pyarrow.float64(), 2)
    python = [component.tolist() for component in [torch.tensor([[9.0, 9.0]])] + COMPONENTS]
    for stem, make in (("arrow_list", pyarrow.list_), ("arrow_large_list", pyarrow.large_list)):
        array = pyarrow.array(python, type=make(pairs)).slice(1)  # offsets that do not start at 0
        offsets = torch.from_numpy(array.offsets.to_numpy().copy())
        values = torch.tensor(array.values.to_pylist(), dtype=torch.float64)
        origin = f"Arrow (pyarrow {pyarrow.__version__}), {array.type}, sliced"
        write(stem, origin, {"values": values, "offsets": offsets}, COMPONENTS)


torch_files()
arrow_files()
