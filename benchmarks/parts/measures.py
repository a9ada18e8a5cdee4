"""What each result measures, as paths: a change of code in them since its commit ages it."""

NO_GPU = [":!deckle/core/cuda", ":!deckle/kernels/cuda"]
GENERATED = ["opgen", *(f":!opgen/{part}" for part in ("emit/site", "emit/tests", "emit/dump", "readers/aten"))]
CALL = ["deckle/base", "deckle/core", "deckle/dispatch", "deckle/autograd", "deckle/ops", "deckle/kernels/args", *GENERATED]
THREADS = ["deckle/base/parallel.*", "deckle/base/thread_lists.*", "deckle/base/scratch.*", "deckle/base/cpu_cap.*"]
MEMORY = ["deckle/core/allocator.*", "deckle/core/storage.*"]
ATTENTION = ["deckle/attention", "deckle/kernels/args/attention*", "ops/attention.yaml", "ops/instances.yaml"]
CPU_ATTENTION = ["deckle/kernels/cpu/attention", "deckle/kernels/cpu/simd", *ATTENTION, *THREADS, *MEMORY,
                 ":!deckle/attention/cuda_*", ":!deckle/kernels/args/attention_cuda*"]
NO_ATTENTION = [":!deckle/kernels/cpu/attention", *(f":!deckle/kernels/cuda/{kind}attention" for kind in (
    "", "general_", "packed_")), ":!ops/attention.yaml", ":!ops/instances.yaml", ":!deckle/kernels/args/attention*"]
OPS = [*CALL, "deckle/kernels/cpu", "ops", *NO_GPU, *NO_ATTENTION]
LIBRARY = ["deckle", "ops", *GENERATED]
HOPPER = ["deckle/kernels/cuda/attention", "deckle/kernels/cuda/arch", "deckle/kernels/cuda/tile",
          "deckle/kernels/args/attention*", "ops/instances.yaml"]
PLAIN = [*HOPPER, *(f":!deckle/kernels/cuda/attention/{kind}*" for kind in (
    "*bias", "score_", "split_", "tangent_", "second_", "pair_", "portable"))]  # neither features nor operands in pairs
BUILD = ["deckle", "opgen", "ops", "cmake", "CMakeLists.txt", "CMakePresets.json"]

MEASURES = {
    **dict.fromkeys(("attention_cpu", "attention_cpu_decoding"), CPU_ATTENTION),
    **dict.fromkeys(("attention_cpu_by_isa", "attention_cpu_float16"),
                    [*CPU_ATTENTION, ":!deckle/kernels/cpu/attention/decode*"]),
    "call_overhead": [*CALL, "deckle/kernels/cpu/pointwise", "deckle/kernels/cpu/simd", "ops/pointwise.yaml", *NO_GPU,
                      ":!deckle/kernels/cpu/simd/amx*"],
    "small_tensors": [*OPS, *(f":!deckle/kernels/cpu/{family}" for family in ("conv", "loss", "norm", "segment", "sort"))],
    "dense_ops": OPS,
    **dict.fromkeys(("nested_ops", "earlier"), [*OPS, "deckle/nested"]),
    **dict.fromkeys(("language_model", "language_model_losses"), [*LIBRARY, ":!deckle/functional", ":!deckle/io", *NO_GPU]),
    **dict.fromkeys(("sampling", "demo"), [*LIBRARY, "tools/deckle", ":!deckle/functional", *NO_GPU]),
    **dict.fromkeys(("gpu_training", "gpu_language_model"), [*LIBRARY, ":!deckle/functional", ":!deckle/io",
                                                            ":!deckle/kernels/cpu"]),
    "gpu_ops": [*CALL, "deckle/kernels/cuda", "ops", *NO_ATTENTION],
    **dict.fromkeys(("attention_cuda", "attention_cuda_f16", "attention_cuda_flash4"), PLAIN),
    **dict.fromkeys(("attention_cuda_features", "attention_cuda_ragged_bias", "attention_cuda_pairs"), HOPPER),
    **dict.fromkeys(("attention_cuda_memory_efficient", "attention_cuda_limit"), []),  # nothing of the library
    "portable_architectures": HOPPER,
    "smallest_program": ["deckle/*.h", "ops", *GENERATED, ":!deckle/kernels"],
    "build_cost": BUILD,
    "build_cuda": [*(path for path in BUILD if path != "deckle"), "deckle/kernels/cuda", "deckle/core/cuda"],
    "own_ops": [*BUILD, *NO_GPU],
    "aten_files": ["opgen"],
    "reference_site": ["tools/site", "opgen", "ops", "docs", "deckle"],
    "durations": [*BUILD, "tests", "benchmarks"],
    "sanitizers": [*BUILD, "tests"],
    "lines_of_code": ["deckle", "opgen"],
}
# Lines of a file, by its end, that say nothing to a compiler or the generator. What other files hold counts, but for blank lines.
COMMENTS = {**dict.fromkeys((".h", ".cuh", ".cpp", ".cu"), ("//",)), ".yaml": ("#", "doc:"), ".cmake": ("#",), ".txt": ("#",),
            ".py": ("#",)}
PROSE = [":!*.md"]  # but where pages are what is measured


def is_code(name, line):
    """Whether a line of a file is more than a comment, a sentence about an op or nothing."""
    words, end = line.strip(), name[name.rfind("."):]
    return bool(words) and not words.startswith(COMMENTS.get(end, ("\n",)))


def changes_code(patch):
    """Whether a patch, by lines, changes code anywhere."""
    name, in_head = "", True
    for line in patch:
        if line.startswith("diff --git "):
            in_head = True
        elif line.startswith("@@"):
            in_head = False
        elif in_head and line.startswith(("--- a/", "+++ b/")):
            name = line.rstrip("\n")[6:]
        elif in_head and line.startswith("Binary files "):
            return True
        elif not in_head and line.startswith(("-", "+")) and is_code(name, line[1:]):
            return True
    return False
