# SPDX-License-Identifier: Apache-2.0
#
# Attaching to running programs: through the control block, and by injection.
add_executable(attach_program attach_program.cpp)
target_link_libraries(attach_program PRIVATE gpuidle_options simcuda Threads::Threads)
add_executable(attach_static_program attach_static_program.c)
target_link_options(attach_static_program PRIVATE -static)
foreach(name probe slow_probe)
  add_library(attach_${name} MODULE attach_probe_library.cpp)
  target_link_libraries(attach_${name} PRIVATE gpuidle_options Threads::Threads)
endforeach()
target_compile_definitions(attach_slow_probe PRIVATE ATTACH_PROBE_IS_SLOW)
# The injector alone, again and again; what it knows of the command is its list of sources.
get_target_property(sources gpuidle_command SOURCES)
list(FILTER sources INCLUDE REGEX "inject/|process_facts")
list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/tools/)
add_executable(attach_cycles attach_cycles.cpp ${sources})
target_link_libraries(attach_cycles PRIVATE gpuidle_options)

gpuidle_add_process_test(attach_test)
gpuidle_add_process_test(attach_hostile_test)
gpuidle_add_process_test(attach_inject_test)
gpuidle_add_process_test(attach_cycles_test)
add_test(NAME attach_cycles_long_test
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/attach_cycles_test.py 1000)
add_test(NAME attach_kills_long_test
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/attach_inject_test.py Interrupted 200)
set_tests_properties(attach_cycles_long_test attach_kills_long_test PROPERTIES
  LABELS "process;slow" SKIP_RETURN_CODE 77 TIMEOUT 6000
  ENVIRONMENT "GPUIDLE_BUILD_DIR=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
