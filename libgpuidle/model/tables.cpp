// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/model/tables.h"

#include <algorithm>
#include <tuple>

namespace gpuidle::model {
namespace {

// FNV-1a over 64-bit words, finished by a multiply-shift so that low bits depend on all input.
class Hasher {
 public:
  Hasher& add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001b3ULL;
    state_ ^= state_ >> 29;
    return *this;
  }
  Hasher& add(std::string_view text) {
    for (const char c : text) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return add(text.size());
  }
  std::uint64_t value() const { return state_ ^ (state_ >> 32); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

std::uint64_t hash_of(const Kernel& k) {
  Hasher h;
  h.add(k.name).add(k.registers_per_thread).add(k.static_shared_bytes).add(k.dynamic_shared_bytes);
  for (int i = 0; i < 3; ++i)
    h.add(k.grid[static_cast<std::size_t>(i)]).add(k.block[static_cast<std::size_t>(i)]);
  return h.value();
}
std::uint64_t hash_of(const Module& m) {
  return Hasher().add(m.path).add(m.build_id).add(m.load_bias).add(m.begin_address).value();
}
std::uint64_t hash_of(const Frame& f) {
  return Hasher()
      .add(f.address)
      .add(f.module)
      .add(f.function)
      .add(f.file)
      .add(f.line)
      .add(static_cast<std::uint64_t>(f.kind))
      .value();
}
std::uint64_t hash_of(const FrameId* frames, std::size_t count) {
  Hasher h;
  for (std::size_t i = 0; i < count; ++i) h.add(frames[i]);
  return h.add(count).value();
}

using Index = std::unordered_multimap<std::uint64_t, std::uint32_t>;

// The id under `hash` for which `is_equal(id)` holds, or the one that `add()` gives.
template <typename IsEqual, typename Add>
std::uint32_t find_or_add(Index& index, std::uint64_t hash, IsEqual is_equal, Add add) {
  const auto [first, last] = index.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (is_equal(it->second)) return it->second;
  }
  const std::uint32_t id = add();
  index.emplace(hash, id);
  return id;
}

template <typename Row>
std::uint32_t intern_row(Index& index, std::vector<Row>& rows, const Row& row) {
  return find_or_add(
      index, hash_of(row), [&](std::uint32_t id) { return rows[id] == row; },
      [&] {
        rows.push_back(row);
        return static_cast<std::uint32_t>(rows.size() - 1);
      });
}

}  // namespace

bool Kernel::operator==(const Kernel& o) const {
  return std::tie(name, grid, block, registers_per_thread, static_shared_bytes,
                  dynamic_shared_bytes) == std::tie(o.name, o.grid, o.block, o.registers_per_thread,
                                                    o.static_shared_bytes, o.dynamic_shared_bytes);
}

bool Module::operator==(const Module& o) const {
  return std::tie(path, build_id, load_bias, begin_address, end_address) ==
         std::tie(o.path, o.build_id, o.load_bias, o.begin_address, o.end_address);
}

bool Frame::operator==(const Frame& o) const {
  return std::tie(address, module, function, file, line, kind) ==
         std::tie(o.address, o.module, o.function, o.file, o.line, o.kind);
}

Tables::Tables()
    : strings_(1), kernels_(1), modules_(1), frames_(1), stack_ends_(1, 0), threads_(1), apis_(1) {}

StringId Tables::intern(std::string_view text) {
  if (text.empty()) return 0;
  return find_or_add(
      string_index_, Hasher().add(text).value(),
      [&](std::uint32_t id) { return strings_[id] == text; },
      [&] {
        strings_.emplace_back(text);
        return static_cast<StringId>(strings_.size() - 1);
      });
}

KernelId Tables::intern(const Kernel& kernel) {
  return intern_row(kernel_index_, kernels_, kernel);
}
ModuleId Tables::intern(const Module& module) {
  return intern_row(module_index_, modules_, module);
}
FrameId Tables::intern(const Frame& frame) { return intern_row(frame_index_, frames_, frame); }

StackId Tables::intern_stack(const FrameId* frames, std::size_t count) {
  if (count == 0) return 0;
  return find_or_add(
      stack_index_, hash_of(frames, count),
      [&](std::uint32_t id) {
        std::size_t known_count = 0;
        const FrameId* known = stack(id, &known_count);
        return known_count == count && std::equal(known, known + count, frames);
      },
      [&] {
        append_stack(frames, count);
        return static_cast<StackId>(stack_ends_.size() - 1);
      });
}

ApiId Tables::intern_api(std::string_view name, ApiRole role) {
  const StringId name_id = intern(name);
  const auto [it, is_new] = api_index_.emplace(name_id, static_cast<ApiId>(apis_.size()));
  if (is_new) apis_.push_back({name_id, role});
  return it->second;
}

ThreadId Tables::intern_thread(std::uint32_t pid, std::uint32_t tid, std::string_view name) {
  const std::uint64_t key = (std::uint64_t{pid} << 32) | tid;
  const auto [it, is_new] = thread_index_.emplace(key, static_cast<ThreadId>(threads_.size()));
  if (is_new) threads_.push_back({pid, tid, intern(name)});
  return it->second;
}

void Tables::set_device(const Device& device) {
  for (Device& known : devices_) {
    if (known.ordinal == device.ordinal) {
      known = device;
      return;
    }
  }
  devices_.push_back(device);
}

void Tables::append_string(std::string_view text) { strings_.emplace_back(text); }
void Tables::append(const Kernel& kernel) { kernels_.push_back(kernel); }
void Tables::append(const Module& module) { modules_.push_back(module); }
void Tables::append(const Frame& frame) { frames_.push_back(frame); }
void Tables::append(const Thread& thread) { threads_.push_back(thread); }
void Tables::append(const Api& api) { apis_.push_back(api); }

void Tables::append_stack(const FrameId* frames, std::size_t count) {
  stack_frames_.insert(stack_frames_.end(), frames, frames + count);
  stack_ends_.push_back(stack_frames_.size());
}

const FrameId* Tables::stack(StackId id, std::size_t* count) const {
  *count = 0;
  if (id == 0 || id >= stack_ends_.size()) return nullptr;
  *count = stack_ends_[id] - stack_ends_[id - 1];
  return stack_frames_.data() + stack_ends_[id - 1];
}

bool Tables::is_consistent() const {
  const auto is_string = [this](StringId id) { return id < strings_.size(); };
  return std::all_of(kernels_.begin(), kernels_.end(),
                     [&](const Kernel& k) { return is_string(k.name); }) &&
         std::all_of(modules_.begin(), modules_.end(),
                     [&](const Module& m) { return is_string(m.path); }) &&
         std::all_of(frames_.begin(), frames_.end(),
                     [&](const Frame& f) {
                       return f.module < modules_.size() && is_string(f.function) &&
                              is_string(f.file);
                     }) &&
         std::all_of(stack_frames_.begin(), stack_frames_.end(),
                     [&](FrameId f) { return f < frames_.size(); }) &&
         std::all_of(threads_.begin(), threads_.end(),
                     [&](const Thread& t) { return is_string(t.name); }) &&
         std::all_of(apis_.begin(), apis_.end(), [&](const Api& a) { return is_string(a.name); }) &&
         std::all_of(devices_.begin(), devices_.end(),
                     [&](const Device& d) { return is_string(d.name); });
}

}  // namespace gpuidle::model
