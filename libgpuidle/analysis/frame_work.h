// SPDX-License-Identifier: Apache-2.0
//
// What kind of host work a call stack or a named range stands for, by the names in it. Fed with the
// recording's dictionaries and, for native frames, with names that the caller resolves; feeds the
// verdicts on gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libgpuidle/model/tables.h"

namespace gpuidle::analysis {

/// Kinds of host work that names give away.
enum class HostWork : std::uint8_t {
  other = 0,
  loader_wait,
  inline_preprocess,
  checkpoint,
  upload,
  metrics,
  garbage,
  compile,
  fetch,
  scalar_read,
  explicit_sync,
  alloc_flush,  // the last one: kHostWorkCount
};
inline constexpr std::size_t kHostWorkCount = static_cast<std::size_t>(HostWork::alloc_flush) + 1;

/// Names frames that the recording itself does not name. Analysis does no I/O: whoever can read
/// object files implements this.
class FrameNames {
 public:
  struct Name {
    std::string_view function;
    std::string_view where;  ///< source file or object file, "" = not known
  };
  virtual ~FrameNames() = default;
  /// The views stay valid as long as this object. Context: tool.
  virtual Name name_of(model::FrameId frame) = 0;
};

/// The work that one name gives away. `where` is the file of a Python function or the object file
/// of a native one, "" for names of other tools.
HostWork work_of(std::string_view where, std::string_view function);

/// True for the scopes that Python gives to comprehensions and generator expressions: they are part
/// of the function around them.
bool is_comprehension(std::string_view function);

/// What is known of a stack at a glance.
struct StackWork {
  HostWork work = HostWork::other;  ///< of the innermost frame that gives any away
  bool has_frames = false;
  bool has_python = false;  ///< a Python function, or an operator of PyTorch
  /// Of the innermost Python function, comprehensions apart, whatever its line; 0 = there is none.
  std::uint64_t function = 0;
};

/// Looks each frame and stack up once. Context: tool.
class FrameWork {
 public:
  /// `tables` and `names` (nullptr: native frames stay unnamed) must outlive this object.
  FrameWork(const model::Tables& tables, FrameNames* names) : tables_(tables), names_(names) {}

  StackWork of_stack(model::StackId stack);
  /// Of a marker's name.
  HostWork of_name(model::StringId name);

 private:
  struct Known {
    bool is_known = false;
    StackWork work;
  };
  HostWork of_frame(model::FrameId frame);

  const model::Tables& tables_;
  FrameNames* names_;
  std::vector<Known> stacks_, frames_, strings_;
};

}  // namespace gpuidle::analysis
