# SPDX-License-Identifier: Apache-2.0
#
# Native stacks from outside of the library that takes them. The probe is compiled from the sources
# and never sanitized, as the recorder.
set(room ${CMAKE_SOURCE_DIR}/libgpuidle/stacks)
add_library(stack_probe SHARED stack_probe.cpp ${room}/call_stack.cpp ${room}/eh_frame.cpp
            ${room}/frame_program.cpp ${room}/libunwind_walk.cpp ${room}/native_stepper.cpp
            ${room}/register_walk.cpp ${room}/stack_bounds.cpp ${room}/thread_walkers.cpp
            ${room}/unwind_tables.cpp ${CMAKE_SOURCE_DIR}/libgpuidle/base/loaded_objects.cpp)
target_link_libraries(stack_probe PRIVATE gpuidle_options ${CMAKE_DL_LIBS})
target_compile_options(stack_probe PRIVATE -O2)
set_target_properties(stack_probe PROPERTIES CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON)
add_executable(stack_capture_test stack_capture_test.cpp)
target_link_libraries(stack_capture_test PRIVATE stack_probe gpuidle_options Catch2::Catch2
                      Threads::Threads)
target_compile_options(stack_capture_test PRIVATE -O2)
add_test(NAME stack_capture_test COMMAND stack_capture_test)
set_tests_properties(stack_capture_test PROPERTIES LABELS process TIMEOUT 60)

add_library(stack_throw SHARED stack_throw.cpp)
target_link_libraries(stack_throw PRIVATE gpuidle_options)
set_target_properties(stack_throw PROPERTIES
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
gpuidle_add_process_test(stack_exceptions_test)
gpuidle_add_process_test(stack_python_test LABELS torch)
gpuidle_add_process_test(stack_every_test)
