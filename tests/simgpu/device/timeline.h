// SPDX-License-Identifier: Apache-2.0
// The ground truth: one CSV row per device operation and per wait of the host (SIMGPU_TIMELINE).
#pragma once

#include "device/tool.h"

namespace simgpu {

/// Each row is one write(2), so a killed process leaves whole rows. Callers hold the device lock.
void write_timeline(const Operation& operation);
void write_timeline(const HostWait& wait);

/// Opens the file and writes its header, so that a program without GPU work leaves one too.
void open_timeline();

/// Text for a copy's direction as in the rows: "memcpy_htod" and so on.
const char* copy_kind_name(const Operation& operation);

}  // namespace simgpu
