// SPDX-License-Identifier: Apache-2.0
//
// The kinds of records as words, for `info` and `dump`: the same in text and as keys in JSON.
#pragma once

#include "libgpuidle/model/records.h"
#include "libgpuidle/model/tables.h"

namespace gpuidle::cli {

const char* word_of(model::ActivityKind kind);
const char* word_of(model::CopyKind kind);
const char* word_of(model::MemoryKind kind);
const char* word_of(model::ApiRole role);
const char* word_of(model::Marker::Kind kind);
const char* word_of(model::ThreadActivity activity);
const char* word_of(model::WaitTarget target);

}  // namespace gpuidle::cli
