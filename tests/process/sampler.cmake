# SPDX-License-Identifier: Apache-2.0
#
# Samples of threads that keep a device waiting.
add_executable(sampler_program sampler_program.cpp)
target_link_libraries(sampler_program PRIVATE gpuidle_options simcuda simcudart Threads::Threads)
target_compile_options(sampler_program PRIVATE -g -O1)
gpuidle_add_process_test(sampler_test)
gpuidle_add_process_test(sampler_python_test)
gpuidle_add_process_test(six_causes_test)
# One second is one second of a busy machine, too.
set_tests_properties(sampler_test sampler_python_test six_causes_test PROPERTIES RUN_SERIAL ON)
