"""What ops, their families and their files are called, here and in the repository."""

FAMILIES = {
    "pointwise": "Element by element",
    "bitwise": "Bits of integers",
    "reduce": "Reductions",
    "matmul": "Matrix products",
    "fused": "Several in one pass",
    "linalg": "Linear algebra",
    "conv": "Convolution",
    "norm": "Normalisation",
    "attention": "Attention",
    "loss": "Losses",
    "index": "Indexing and joining",
    "shape": "Shapes and views",
    "arrange": "Rearranging elements",
    "sort": "Sorting",
    "segment": "Segments",
    "random": "Random numbers",
    "position": "Positions",
    "factory": "Factories",
    "foreach": "Lists of tensors",
}


def path_of(name):
    return "ops/index-op.html" if name == "index" else f"ops/{name}.html"  # ops/index.html is the list of ops


def type_path(name):
    return f"types/{name}.html"


def kernel_path(device, file, own=False):
    """Of Deckle's kernels below its folder, of a library with `own` ops below the library's."""
    return f"{'' if own else f'deckle/kernels/{device}/'}{file}.{'cu' if device == 'cuda' else 'cpp'}"


def group(ops):
    """Ops by name, the overloads of each together."""
    found = {}
    for op in ops:
        found.setdefault(op["name"], []).append(op)
    return found


def family(stem):
    return FAMILIES.get(stem, stem.replace("_", " ").capitalize())
