# SPDX-License-Identifier: Apache-2.0
#
# The life of a process: each hazard is one small program, run with and without the preload.
function(gpuidle_add_life_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE gpuidle_options simcuda simcudart Threads::Threads
                        ${CMAKE_DL_LIBS})
  target_compile_options(${name} PRIVATE -g -O1)
endfunction()
gpuidle_add_life_program(life_processes life_processes.cpp)
gpuidle_add_life_program(life_endings life_endings.cpp)
gpuidle_add_life_program(life_threads life_threads.cpp)
gpuidle_add_life_program(life_soak life_soak.cpp)

gpuidle_add_life_program(life_late_client life_late_client.cpp)
target_link_libraries(life_late_client PRIVATE simcupti)

# CUDA by unusual doors.
add_library(life_plugin MODULE life_plugin.cpp)
target_link_libraries(life_plugin PRIVATE gpuidle_options simcuda simcudart Threads::Threads)
add_library(life_dlsym_hook MODULE life_dlsym_hook.cpp)
target_link_libraries(life_dlsym_hook PRIVATE gpuidle_options ${CMAKE_DL_LIBS})
target_compile_options(life_dlsym_hook PRIVATE -O2)
add_executable(life_loading life_loading.cpp)
target_link_libraries(life_loading PRIVATE gpuidle_options ${CMAKE_DL_LIBS})
add_executable(life_static_program life_static_program.c)
target_link_options(life_static_program PRIVATE -static)
add_executable(life_static_runtime run_program.cpp)
target_link_libraries(life_static_runtime PRIVATE gpuidle_options simcudart_static simcuda
                      Threads::Threads ${CMAKE_DL_LIBS})
foreach(sanitizer address thread)
  add_executable(life_${sanitizer}_sanitized run_program.cpp)
  target_link_libraries(life_${sanitizer}_sanitized PRIVATE gpuidle_options simcuda simcudart
                        Threads::Threads)
  target_compile_options(life_${sanitizer}_sanitized PRIVATE -g -O1 -fsanitize=${sanitizer})
  target_link_options(life_${sanitizer}_sanitized PRIVATE -fsanitize=${sanitizer})
endforeach()

gpuidle_add_process_test(life_processes_test)
gpuidle_add_process_test(life_endings_test)
gpuidle_add_process_test(life_threads_test)
gpuidle_add_process_test(life_loading_test)
gpuidle_add_process_test(life_surroundings_test)
gpuidle_add_process_test(doctor_test)
gpuidle_add_process_test(cupti_releases_test)
gpuidle_add_process_test(life_profiler_test)
gpuidle_add_process_test(life_soak_test)
add_test(NAME life_soak_long_test
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/life_soak_test.py 600)
set_tests_properties(life_soak_long_test PROPERTIES
  LABELS "process;slow" SKIP_RETURN_CODE 77 TIMEOUT 1800
  ENVIRONMENT "GPUIDLE_BUILD_DIR=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
