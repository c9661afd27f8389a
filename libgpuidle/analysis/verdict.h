// SPDX-License-Identifier: Apache-2.0
//
// The rules that say why one gap is there. They look at nothing but the gap and the clues around
// it, so each can be read and tested on its own. Used by the analysis of a device when a gap
// closes.
#pragma once

#include "libgpuidle/analysis/clues.h"
#include "libgpuidle/analysis/frame_work.h"
#include "libgpuidle/analysis/idleness.h"

namespace gpuidle::analysis {

/// What the surroundings of a gap say about it; everything but Clues::is_in_run and
/// compute_before_ns. The gap's edges and opener must be known, its split need not.
void examine(const Surroundings& around, FrameWork* frames, const Gap& gap, Clues* clues);

/// Sets cause, grade and removable_ns of a gap whose split is final. What computation could hide
/// (loaders, preprocessing) is not limited to the computation there is: the caller knows that.
void judge(const Clues& clues, FrameWork* frames, Gap* gap);

}  // namespace gpuidle::analysis
