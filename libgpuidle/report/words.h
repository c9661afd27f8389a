// SPDX-License-Identifier: Apache-2.0
//
// The words in which reports speak of sources, ends, losses and openers: one place, so that every
// command says the same, and stable keys for the same things in JSON.
#pragma once

#include <string_view>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::report {

/// A key for programs and a phrase for people.
struct Word {
  std::string_view key;
  std::string_view phrase;
};

Word word_of(model::Source source);
Word word_of(model::End end);
/// The phrase says what was lost and what that can change.
Word word_of(model::LossReason reason);
Word word_of(analysis::Opener opener);

}  // namespace gpuidle::report
