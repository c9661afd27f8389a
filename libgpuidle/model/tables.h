// SPDX-License-Identifier: Apache-2.0
//
// The dictionaries of a recording: strings, kernels, modules, frames, stacks, threads, calls and
// devices. Append-only, so that a writer only needs to remember how far it got, and an id, once
// given, means the same for ever. Row 0 of each dictionary is the "none" row.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libgpuidle/model/records.h"

namespace gpuidle::model {

/// A kernel in one launch shape.
struct Kernel {
  StringId name = 0;                     ///< mangled as recorded; demangled only for display
  std::array<std::uint32_t, 3> grid{};   ///< blocks; all 0 = not known
  std::array<std::uint32_t, 3> block{};  ///< threads; all 0 = not known
  std::uint32_t registers_per_thread = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;

  bool operator==(const Kernel& other) const;
};

/// A loaded object file of the recorded process.
struct Module {
  StringId path = 0;
  std::string build_id;             ///< raw bytes of the GNU build id, "" = none
  std::uint64_t load_bias = 0;      ///< run-time address - bias = address in the file's own terms
  std::uint64_t begin_address = 0;  ///< run-time range of its loaded segments
  std::uint64_t end_address = 0;

  bool operator==(const Module& other) const;
};

/// One level of a call stack.
struct Frame {
  enum class Kind : std::uint8_t {
    unknown = 0,
    native = 1,    ///< module + address, named offline
    python = 2,    ///< function, file, line known at once
    symbolic = 3,  ///< a name from a foreign recording
  };
  std::uint64_t address = 0;  ///< native: return address minus load bias (raw address, no module)
  ModuleId module = 0;
  StringId function = 0;
  StringId file = 0;
  std::uint32_t line = 0;  ///< 0 = not known
  Kind kind = Kind::unknown;

  bool operator==(const Frame& other) const;
};

struct Thread {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  StringId name = 0;
};

struct Api {
  StringId name = 0;  ///< e.g. "cudaMemcpyAsync", without version suffix
  ApiRole role = ApiRole::other;
};

struct Device {
  std::uint32_t ordinal = 0;
  StringId name = 0;
  std::uint32_t multiprocessors = 0;  ///< 0 = not known
  std::uint32_t compute_major = 0;
  std::uint32_t compute_minor = 0;
  std::uint64_t memory_bytes = 0;
  bool merely_listed = false;  ///< visible to the program; says nothing about its use
};

/// Context: recorder's drain thread or tools; not thread-safe.
class Tables {
 public:
  Tables();

  /// Each returns the id of an equal row, adding it if it is new.
  StringId intern(std::string_view text);
  KernelId intern(const Kernel& kernel);
  ModuleId intern(const Module& module);
  FrameId intern(const Frame& frame);
  StackId intern_stack(const FrameId* frames, std::size_t count);  ///< innermost first
  ApiId intern_api(std::string_view name, ApiRole role);
  ThreadId intern_thread(std::uint32_t pid, std::uint32_t tid, std::string_view name);
  void set_device(const Device& device);  ///< adds or replaces the row of that ordinal

  /// Appends a row as it lies in a file, whether or not an equal one exists. For readers.
  void append_string(std::string_view text);
  void append(const Kernel& kernel);
  void append(const Module& module);
  void append(const Frame& frame);
  void append_stack(const FrameId* frames, std::size_t count);
  void append(const Thread& thread);
  void append(const Api& api);

  std::string_view string(StringId id) const {
    return id < strings_.size() ? std::string_view(strings_[id]) : std::string_view("?");
  }
  const std::vector<std::string>& strings() const { return strings_; }
  const std::vector<Kernel>& kernels() const { return kernels_; }
  const std::vector<Module>& modules() const { return modules_; }
  const std::vector<Frame>& frames() const { return frames_; }
  const std::vector<Thread>& threads() const { return threads_; }
  const std::vector<Api>& apis() const { return apis_; }
  const std::vector<Device>& devices() const { return devices_; }

  std::size_t stack_count() const { return stack_ends_.size(); }
  /// Frames of a stack, innermost first. `count` receives their number; an unknown id has none.
  const FrameId* stack(StackId id, std::size_t* count) const;

  /// Checks that every id inside the rows names an existing row. For readers of untrusted files.
  bool is_consistent() const;

 private:
  std::vector<std::string> strings_;
  std::vector<Kernel> kernels_;
  std::vector<Module> modules_;
  std::vector<Frame> frames_;
  std::vector<FrameId> stack_frames_;    // all stacks, one after the other
  std::vector<std::size_t> stack_ends_;  // end of stack i in stack_frames_
  std::vector<Thread> threads_;
  std::vector<Api> apis_;
  std::vector<Device> devices_;

  // Lookup by content hash; collisions are resolved by comparing the rows.
  std::unordered_multimap<std::uint64_t, std::uint32_t> string_index_, kernel_index_, module_index_,
      frame_index_, stack_index_;
  std::unordered_map<std::uint64_t, ThreadId> thread_index_;  // pid << 32 | tid
  std::unordered_map<StringId, ApiId> api_index_;
};

}  // namespace gpuidle::model
