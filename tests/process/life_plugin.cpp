// SPDX-License-Identifier: Apache-2.0
//
// A library that uses the device, linked to the CUDA runtime and driver like an extension module:
// life_loading opens it in unusual ways.
#include "tests/process/device_feeder.h"

extern "C" __attribute__((visibility("default"))) void run_plugin(int steps) {
  DeviceFeeder feeder;
  feeder.run(steps);
}
