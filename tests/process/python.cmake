# SPDX-License-Identifier: Apache-2.0
#
# Python frames, with every CPython that is installed. The probe is opened by interpreters that are
# not sanitized, so it is compiled from the sources and never sanitized itself.
set(room ${CMAKE_SOURCE_DIR}/libgpuidle/stacks)
file(GLOB stacks CONFIGURE_DEPENDS ${room}/*.cpp)
list(REMOVE_ITEM stacks ${room}/module_map.cpp ${room}/stall_sampler.cpp)
add_library(python_probe SHARED python_probe.cpp python_load_probe.cpp ${stacks}
            ${CMAKE_SOURCE_DIR}/libgpuidle/base/loaded_objects.cpp
            ${CMAKE_SOURCE_DIR}/libgpuidle/base/own_thread.cpp
            ${CMAKE_SOURCE_DIR}/libgpuidle/record/host_clock.cpp)
target_link_libraries(python_probe PRIVATE gpuidle_options ${CMAKE_DL_LIBS} Threads::Threads)
target_compile_options(python_probe PRIVATE -O2)
# An interpreter may bring an older libstdc++ than the compiler's.
target_link_options(python_probe PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs)

# Preloaded into a program, it is an interpreter that is stood down from.
add_library(python_pretender SHARED ${CMAKE_SOURCE_DIR}/tests/unit/python_pretender.cpp)
target_link_libraries(python_pretender PRIVATE gpuidle_options)

# Label torch: with PyTorch at hand these do more.
gpuidle_add_process_test(python_frames_test LABELS torch)
gpuidle_add_process_test(python_load_test TIMEOUT 900)
add_test(NAME python_load_million_test
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/python_load_test.py million)
set_tests_properties(python_load_million_test PROPERTIES LABELS "process;slow" TIMEOUT 7200
  ENVIRONMENT "GPUIDLE_BUILD_DIR=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
gpuidle_add_process_test(python_loop_test)
