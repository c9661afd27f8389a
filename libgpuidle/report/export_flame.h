// SPDX-License-Identifier: Apache-2.0
//
// Idle time as a flame graph: call stacks at the edges of the gaps, weighted by the idle
// nanoseconds they account for, sorted by device and cause. The leaves are the parts of the gaps
// (H, A, D), so that the weights of a device add up to its idle time exactly. Fed with the result
// of the analysis.
#pragma once

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/report/export_sink.h"
#include "libgpuidle/report/places.h"

namespace gpuidle::report {

/// Folded stacks, one line each: frames from the outermost inwards with ';' between them, a blank,
/// nanoseconds. Read by flamegraph.pl and its many descendants. Context: tool.
void export_folded(const analysis::Idleness& found, Places& places, ExportSink* sink);

/// speedscope's JSON, one profile per device, unit nanoseconds. `title` names the recording.
/// Context: tool.
void export_speedscope(const model::Recording& recording, const analysis::Idleness& found,
                       std::string_view title, Places& places, ExportSink* sink);

}  // namespace gpuidle::report
