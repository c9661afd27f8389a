// SPDX-License-Identifier: Apache-2.0
//
// Reads what `nsys export --type sqlite` writes, schemas 2.9 to 3.25 and whatever later one keeps
// the columns that are asked for. Fed by open_recording() with a path, feeds the analysis.
#pragma once

#include <memory>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::import {

/// Makes a recording of the database at `path`; times are nanoseconds since the session began. An
/// export without events is a recording. Errors: those of SqliteFile::open() and scan();
/// wrong_format for a database that is no export. Context: tool.
base::Result<std::unique_ptr<model::Recording>> read_nsys(const std::string& path);

}  // namespace gpuidle::import
