// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/module_map.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "libgpuidle/base/loaded_objects.h"

namespace gpuidle::stacks {
namespace {

std::string program_path() {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length <= 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(length));
}

// The GNU build id in a PT_NOTE segment in memory, "" = none. Both name and type are compared:
// SystemTap's probes have notes of the same type.
std::string build_id_in(const char* notes, std::size_t size) {
  std::size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes + at, sizeof(head));
    const std::size_t name_at = at + sizeof(head);
    const std::size_t id_at = name_at + ((head.n_namesz + 3u) & ~std::size_t{3});
    const std::size_t next = id_at + ((head.n_descsz + 3u) & ~std::size_t{3});
    if (next > size || next <= at) return {};
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
        std::memcmp(notes + name_at, "GNU", 4) == 0) {
      return std::string(notes + id_at, head.n_descsz);
    }
    at = next;
  }
  return {};
}

struct Snapshot {
  std::vector<MappedModule> modules;
  unsigned long long loads = 0;
  unsigned long long unloads = 0;
  bool is_first = true;
};

std::string path_of(const dl_phdr_info& info, bool is_program) {
  if (is_program) return program_path();
  const auto vdso = static_cast<std::uintptr_t>(getauxval(AT_SYSINFO_EHDR));
  if (vdso != 0 && info.dlpi_phnum > 0) {
    // The vdso is linked at 0 and its ELF header is the start of its mapping.
    const auto first = reinterpret_cast<std::uintptr_t>(info.dlpi_phdr);
    if (first >= vdso && first < vdso + 4096) return "[vdso]";
  }
  return info.dlpi_name == nullptr ? std::string() : std::string(info.dlpi_name);
}

int add_module(dl_phdr_info* info, std::size_t, void* out) {
  auto* snapshot = static_cast<Snapshot*>(out);
  MappedModule module;
  module.path = path_of(*info, snapshot->is_first);
  snapshot->is_first = false;
  module.load_bias = info->dlpi_addr;
  module.begin_address = UINT64_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const std::uint64_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      module.begin_address = std::min(module.begin_address, start);
      module.end_address = std::max(module.end_address, start + segment.p_memsz);
    } else if (segment.p_type == PT_NOTE && module.build_id.empty()) {
      module.build_id = build_id_in(reinterpret_cast<const char*>(start), segment.p_memsz);
    }
  }
  if (module.begin_address < module.end_address) snapshot->modules.push_back(std::move(module));
  snapshot->loads = info->dlpi_adds;
  snapshot->unloads = info->dlpi_subs;
  return 0;
}

int read_counts(dl_phdr_info* info, std::size_t, void* out) {
  auto* snapshot = static_cast<Snapshot*>(out);
  snapshot->loads = info->dlpi_adds;
  snapshot->unloads = info->dlpi_subs;
  return 1;
}

}  // namespace

void ModuleMap::refresh() {
  Snapshot counts;
  base::for_each_loaded_object(&read_counts, &counts);
  if (counts.loads == loads_ && counts.unloads == unloads_ && !modules_.empty()) return;
  Snapshot snapshot;
  base::for_each_loaded_object(&add_module, &snapshot);
  std::sort(snapshot.modules.begin(), snapshot.modules.end(),
            [](const auto& a, const auto& b) { return a.begin_address < b.begin_address; });
  modules_ = std::move(snapshot.modules);
  loads_ = snapshot.loads;
  unloads_ = snapshot.unloads;
}

MappedModule* ModuleMap::find(std::uint64_t address) {
  auto after = std::upper_bound(
      modules_.begin(), modules_.end(), address,
      [](std::uint64_t value, const MappedModule& module) { return value < module.begin_address; });
  if (after == modules_.begin()) return nullptr;
  MappedModule& module = *(after - 1);
  return address < module.end_address ? &module : nullptr;
}

model::FrameId ModuleMap::frame_of(std::uint64_t address, model::Tables& tables) {
  model::Frame frame;
  frame.kind = model::Frame::Kind::native;
  frame.address = address;
  if (MappedModule* module = find(address); module != nullptr) {
    if (module->id == 0) {
      model::Module row;
      row.path = tables.intern(module->path);
      row.build_id = module->build_id;
      row.load_bias = module->load_bias;
      row.begin_address = module->begin_address;
      row.end_address = module->end_address;
      module->id = tables.intern(row);
    }
    frame.module = module->id;
    frame.address = address - module->load_bias;
  }
  return tables.intern(frame);
}

}  // namespace gpuidle::stacks
