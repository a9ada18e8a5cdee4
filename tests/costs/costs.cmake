# Seconds that long tests take on two cores, read by ctest itself: the longest start first, so that none is left to run alone at
# the end, also where ctest has measured nothing yet. Tests that are not here have the cost that an earlier run measured, or none.
# Names that a build does not have are passed over.
foreach(test_and_seconds
    consumer_add_subdirectory=90 site=80 cuda_tensors_on_fake_devices=50 nested_reductions_test=57
    general_attention_emulated_test=42 kernels_cpu_matmul_sse2=43 kernels_cpu_matmul_avx2=35 kernels_cpu_matmul_avx512_bf16=34
    kernels_cpu_matmul_avx512=33 kernels_cpu_matmul=31 benchmark_tools=38 faults_training=35 attention_cpu_test=34
    attention_cpu_test_avx512_bf16=32 attention_cpu_test_sse2=28 attention_cpu_test_avx512=21 attention_cpu_test_avx2=17
    opgen_test=28 autograd_test=26 autograd_on_a_fake_device=11 ops_by_hand=25 generated_ops_test=21 generated_ops_test_sse2=19
    generated_ops_test_avx512=19 generated_ops_test_avx512_bf16=18 generated_ops_test_avx2=17
    generated_nested_on_a_fake_device=20 end_to_end=20 own_library=20 own_library_on_another=20 own_library_suite_from_sources=19
    simd_math_test=19 checkers=16 attention_test=16 explain=15 own_ops=13 random_entries_test=12)
  string(REPLACE "=" ";" pair ${test_and_seconds})
  list(GET pair 0 test)
  list(GET pair 1 seconds)
  set_tests_properties(${test} PROPERTIES COST ${seconds})
endforeach()
