// SPDX-License-Identifier: Apache-2.0
//
// What intercept_test asks the libraries that stand around it: the probe, which is preloaded and
// contains the interposed functions with a sink that counts, and the fake CUDA libraries.
#pragma once

extern "C" {

// In the probe (intercept_probe.cpp); weak, since they come with the preload.
int probe_enters(const char* api)
    __attribute__((weak));                          ///< calls seen so far, by the name of their row
int probe_depth() __attribute__((weak));            ///< enters less exits of this thread
int probe_last_result() __attribute__((weak));      ///< what the last exit was told
int probe_initialisations() __attribute__((weak));  ///< calls of on_cuda_init
void probe_listen(int listens) __attribute__((weak));  ///< sets or takes away the sink

// In the fake driver (intercept_fake_driver.cpp).
int fake_calls(const char* symbol);  ///< calls that arrived, by exported name
void fake_next_result(int result);   ///< what the next call returns; then 0 again

}  // extern "C"
