"""The parts of pages by name: each a function of Results to (text, {plot: SVG})."""

from parts import attention_cpu, attention_cuda, gpu, language_model, ops, overview, records

PARTS = {name: part for module in (attention_cpu, attention_cuda, gpu, language_model, ops, overview, records)
         for name, part in module.PARTS.items()}
# The result of a part that is not called as it.
RESULTS = {"attention_cpu_shares": "attention_cpu", "attention_cpu_efficiency": "attention_cpu",
           "dense_ops_products": "dense_ops", "attention_cuda_rates": "attention_cuda",
           "attention_cuda_flash4_words": "attention_cuda_flash4"}
SUMMARIES = ("overview",)  # parts of all results, whose sources stand where these do
# Parts of results of several machines, or of what few of them have: they need not stand on a page.
WHERE_SENSIBLE = ("attention_cpu_efficiency", "dense_ops_products")
# What writes a result that is not called as its benchmark.
COMMANDS = {"attention_cpu_by_isa": "benchmarks/attention_cpu/run --by-isa",
            "attention_cpu_efficiency": "taskset -c 0 benchmarks/attention_cpu/run --threads 1 --only S=2048",
            "attention_cpu_float16": "benchmarks/attention_cpu/run --dtypes float16 --name attention_cpu_float16",
            "attention_cpu_decoding": "benchmarks/attention_cpu/run --only decode --name attention_cpu_decoding",
            "language_model_losses": "benchmarks/language_model/run --losses",
            "earlier": "benchmarks/earlier/run 8922078",
            "lines_of_code": "benchmarks/lines_of_code/run", "durations": "benchmarks/durations/run",
            "sanitizers": "make sanitize",
            "gpu_ops": "benchmarks/gpu_ops/run", "gpu_training": "benchmarks/gpu_training/run",
            "gpu_language_model": "benchmarks/gpu_language_model/run",
            "portable_architectures": "tests/kernels/cuda/portable_architectures.py nvcc --keep-result"}
