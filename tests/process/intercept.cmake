# SPDX-License-Identifier: Apache-2.0
#
# The interposed functions in a process with fake CUDA libraries, and the public header alone. None of
# it is sanitized: the probe is preloaded, like the recorder.

# --- the interposed functions -----------------------------------------------------------------------
set(intercept_libs ${CMAKE_CURRENT_BINARY_DIR}/intercept_libs)
function(gpuidle_add_fake_library name file)
  add_library(${name} SHARED ${ARGN})
  target_link_libraries(${name} PRIVATE gpuidle_options ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${file}
                        LIBRARY_OUTPUT_DIRECTORY ${intercept_libs})
endfunction()

gpuidle_add_fake_library(intercept_fake_driver libcuda.so.1 intercept_fake_driver.cpp)
gpuidle_add_fake_library(intercept_other_driver libother_cuda.so intercept_fake_driver.cpp)
# An address that the driver takes inside itself is its own, not a preloaded one.
target_link_options(intercept_fake_driver PRIVATE -Wl,-Bsymbolic)
target_link_options(intercept_other_driver PRIVATE -Wl,-Bsymbolic)
gpuidle_add_fake_library(intercept_neighbour libintercept_neighbour.so intercept_neighbour.cpp)
foreach(which a b)
  gpuidle_add_fake_library(intercept_runtime_${which} libcudart.so.${which}
                           intercept_fake_runtime.cpp)
  gpuidle_add_fake_library(intercept_user_${which} libintercept_user_${which}.so
                           intercept_runtime_user.cpp)
  target_link_libraries(intercept_user_${which} PRIVATE intercept_runtime_${which})
endforeach()
target_compile_definitions(intercept_runtime_a PRIVATE INTERCEPT_ANSWER=1)
target_compile_definitions(intercept_runtime_b PRIVATE INTERCEPT_ANSWER=2)

set(room ${CMAKE_SOURCE_DIR}/libgpuidle/intercept)
gpuidle_add_fake_library(intercept_probe libintercept_probe.so intercept_probe.cpp
  ${room}/interposers.cpp ${room}/real_symbols.cpp ${room}/symbol_lookup.cpp)
set_target_properties(intercept_probe PROPERTIES CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON)
# As in the recorder, whatever the build type: its dlsym leaves by a jump.
set_source_files_properties(${room}/symbol_lookup.cpp PROPERTIES COMPILE_OPTIONS "-O2")

add_executable(intercept_test intercept_test.cpp)
target_link_libraries(intercept_test PRIVATE gpuidle_options Catch2::Catch2 ${CMAKE_DL_LIBS})
# For the weak cuMemFree_v2, which only the preloaded probe has.
target_compile_options(intercept_test PRIVATE -fPIE)
add_dependencies(intercept_test intercept_probe intercept_fake_driver intercept_other_driver
                 intercept_neighbour intercept_user_a intercept_user_b)
add_test(NAME intercept_test COMMAND ${CMAKE_COMMAND} -E env
  LD_LIBRARY_PATH=${intercept_libs}
  LD_PRELOAD=${intercept_libs}/libintercept_probe.so:${intercept_libs}/libintercept_neighbour.so
  $<TARGET_FILE:intercept_test>)
add_test(NAME intercept_tail_call_test
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/intercept_tail_call_test.sh $<TARGET_FILE:gpuidle>)
set_tests_properties(intercept_test intercept_tail_call_test PROPERTIES LABELS process TIMEOUT 60
                     SKIP_RETURN_CODE 77)

# --- the public header ------------------------------------------------------------------------------
add_library(header_stand_in SHARED header_stand_in.c)
target_include_directories(header_stand_in PRIVATE ${CMAKE_SOURCE_DIR}/include)
foreach(language c cpp)
  set(source header_alone.c)
  if(language STREQUAL cpp)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/header_alone.cpp)
    configure_file(header_alone.c ${source} COPYONLY)
  endif()
  add_executable(header_alone_${language} ${source})
  target_include_directories(header_alone_${language} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(header_alone_${language} PRIVATE -fPIE -Wall -Wextra -Wpedantic -Wshadow
                         -Wconversion -Werror)
  set_target_properties(header_alone_${language} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF
                        CXX_STANDARD 11 CXX_EXTENSIONS OFF)
  # Every answer is that of "not loaded" without the library and the library's own with it.
  add_test(NAME header_without_library_${language} COMMAND header_alone_${language})
  add_test(NAME header_with_library_${language} COMMAND ${CMAKE_COMMAND} -E env
           LD_PRELOAD=$<TARGET_FILE:header_stand_in> $<TARGET_FILE:header_alone_${language}>)
  set_tests_properties(header_without_library_${language} PROPERTIES LABELS process TIMEOUT 60
    PASS_REGULAR_EXPRESSION "active 0.start 1.step 1.push 1.pop 1.mark 1.stop 1.")
  set_tests_properties(header_with_library_${language} PROPERTIES LABELS process TIMEOUT 60
    PASS_REGULAR_EXPRESSION "active 41.start 42.step 44.push 45.pop 46.mark 47.stop 43.")
endforeach()
