// SPDX-License-Identifier: Apache-2.0
#include "device/module.h"

#include <elf.h>

#include <cctype>
#include <cstring>

#include "device/kernel_model.h"
#include "device/memory.h"

namespace simgpu {
namespace {

// Public facts about the container that nvcc writes; everything inside an entry is plain ELF.
constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr uint16_t kEntryPtx = 1;
constexpr uint16_t kEntryElf = 2;
constexpr uint64_t kCompressedFlags = 0x8000 | 0x2000;
constexpr unsigned char kKernelSymbol = 0x10;
constexpr unsigned char kManagedSymbol = 0x04;
constexpr char kAnyNameText[] = "simgpu-any-name";

struct Entry {
  uint16_t kind;
  uint16_t unknown;
  uint32_t header_bytes;
  uint64_t payload_bytes;
};

template <typename T>
T load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Kernel* add_kernel(Library* library, const std::string& name) {
  Kernel*& kernel = library->kernels[name];
  if (kernel == nullptr) {
    kernel = new Kernel;
    kernel->name = intern(name);
    kernel->library = library;
    kernel->duration_ns = kernel_duration_ns(name);
  }
  return kernel;
}

// .nv.info.<kernel>: format byte, attribute byte, then a 16-bit value or the size of a payload.
void read_parameters(const unsigned char* at, size_t bytes, Kernel* kernel) {
  constexpr unsigned char kSizedFormat = 4;
  constexpr unsigned char kParameterInfo = 0x17;
  for (const unsigned char* end = at + bytes; at + 4 <= end;) {
    uint16_t size = load<uint16_t>(at + 2);
    if (at[0] != kSizedFormat) {
      at += 4;
      continue;
    }
    if (at[1] == kParameterInfo && size >= 12) {
      auto ordinal = load<uint16_t>(at + 4 + 4);
      if (kernel->parameter_sizes.size() <= ordinal) {
        kernel->parameter_sizes.resize(ordinal + 1u);
        kernel->parameter_offsets.resize(ordinal + 1u);
      }
      kernel->parameter_offsets[ordinal] = load<uint16_t>(at + 4 + 6);
      kernel->parameter_sizes[ordinal] = load<uint32_t>(at + 4 + 8) >> 18;
    }
    at += 4 + size;
  }
}

void read_registers(const unsigned char* at, size_t bytes,
                    const std::map<uint32_t, Kernel*>& by_symbol) {
  constexpr unsigned char kRegisterCount = 0x2F;
  for (const unsigned char* end = at + bytes; at + 4 <= end;) {
    uint16_t size = load<uint16_t>(at + 2);
    if (at[0] != 4) {
      at += 4;
      continue;
    }
    if (at[1] == kRegisterCount && size >= 8) {
      auto kernel = by_symbol.find(load<uint32_t>(at + 4));
      if (kernel != by_symbol.end()) kernel->second->registers = load<uint32_t>(at + 8);
    }
    at += 4 + size;
  }
}

bool read_elf(const unsigned char* image, Library* library) {
  auto header = load<Elf64_Ehdr>(image);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shoff == 0) return false;
  std::vector<Elf64_Shdr> sections;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    sections.push_back(load<Elf64_Shdr>(image + header.e_shoff + i * sizeof(Elf64_Shdr)));
  }
  auto section_name = [&](const Elf64_Shdr& section) {
    return reinterpret_cast<const char*>(image) + sections[header.e_shstrndx].sh_offset +
           section.sh_name;
  };
  std::map<uint32_t, Kernel*> by_symbol;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* names = reinterpret_cast<const char*>(image) + sections[section.sh_link].sh_offset;
    for (uint32_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      auto symbol = load<Elf64_Sym>(image + section.sh_offset + i * sizeof(Elf64_Sym));
      std::string name = names + symbol.st_name;
      unsigned type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC && (symbol.st_other & kKernelSymbol)) {
        by_symbol[i] = add_kernel(library, name);
      } else if (type == STT_OBJECT && symbol.st_size > 0 && symbol.st_shndx < sections.size()) {
        Variable& variable = library->variables[name];
        variable.bytes = symbol.st_size;
        variable.managed = (symbol.st_other & kManagedSymbol) != 0;
        const Elf64_Shdr& home = sections[symbol.st_shndx];
        if (home.sh_type == SHT_PROGBITS && symbol.st_value + symbol.st_size <= home.sh_size) {
          variable.initial.assign(
              reinterpret_cast<const char*>(image) + home.sh_offset + symbol.st_value,
              symbol.st_size);
        }
      }
    }
  }
  for (const Elf64_Shdr& section : sections) {
    std::string name = section_name(section);
    const unsigned char* content = image + section.sh_offset;
    if (name == ".nv.info") read_registers(content, section.sh_size, by_symbol);
    for (const auto& [index, kernel] : by_symbol) {
      if (name == std::string(".nv.shared.") + kernel->name) {
        kernel->static_shared_bytes = static_cast<uint32_t>(section.sh_size);
      } else if (name == std::string(".nv.info.") + kernel->name) {
        read_parameters(content, section.sh_size, kernel);
      }
    }
  }
  return true;
}

bool read_ptx(const char* text, Library* library) {
  bool any = false;
  for (const char* at = std::strstr(text, ".entry"); at; at = std::strstr(at, ".entry")) {
    at += std::strlen(".entry");
    while (std::isspace(static_cast<unsigned char>(*at))) ++at;
    const char* end = at;
    while (std::isalnum(static_cast<unsigned char>(*end)) || std::strchr("_$%.", *end)) {
      if (*end == 0) break;
      ++end;
    }
    if (end > at) {
      add_kernel(library, std::string(at, end));
      any = true;
    }
    at = end;
  }
  return any;
}

// The newest cubin is taken; a container that has compressed entries only cannot be read.
void read_container(const unsigned char* image, Library* library) {
  auto header_bytes = load<uint16_t>(image + 6);
  auto size = load<uint64_t>(image + 8);
  const unsigned char* best = nullptr;
  uint32_t best_sm = 0;
  std::string ptx;
  const unsigned char* at = image + header_bytes;
  for (const unsigned char* end = at + size; at + sizeof(Entry) <= end;) {
    auto entry = load<Entry>(at);
    if (entry.header_bytes < 48) break;
    auto sm = load<uint32_t>(at + 28);
    bool compressed = (load<uint64_t>(at + 40) & kCompressedFlags) != 0;
    const unsigned char* payload = at + entry.header_bytes;
    if (entry.kind == kEntryElf && !compressed && sm >= best_sm) {
      best = payload;
      best_sm = sm;
    } else if (entry.kind == kEntryPtx && !compressed) {
      ptx.assign(reinterpret_cast<const char*>(payload), entry.payload_bytes);
    }
    at = payload + entry.payload_bytes;
  }
  if (best && read_elf(best, library)) {
    library->sm = static_cast<int>(best_sm);
  } else if (ptx.empty() || !read_ptx(ptx.c_str(), library)) {
    library->any_name = true;
  }
}

}  // namespace

Library* load_image(const void* image) {
  auto* library = new Library;
  auto* bytes = static_cast<const unsigned char*>(image);
  if (image == nullptr) {
    library->any_name = true;
    return library;
  }
  auto magic = load<uint32_t>(bytes);
  if (magic == kWrapperMagic) {
    auto* container = load<const unsigned char*>(bytes + 8);
    if (container && load<uint32_t>(container) == kContainerMagic) {
      read_container(container, library);
    } else {
      library->any_name = true;
    }
    return library;
  }
  if (magic == kContainerMagic) {
    read_container(bytes, library);
    return library;
  }
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    if (read_elf(bytes, library)) return library;
  } else if (magic == 0 || std::strncmp(static_cast<const char*>(image), kAnyNameText,
                                        sizeof kAnyNameText - 1) == 0) {
    library->any_name = true;
    return library;
  } else if (std::isprint(bytes[0]) || std::isspace(bytes[0])) {
    const char* text = static_cast<const char*>(image);
    if (read_ptx(text, library) || std::strstr(text, ".version")) return library;
  }
  delete library;
  return nullptr;
}

Library* to_library(const void* handle) {
  auto* library = static_cast<Library*>(const_cast<void*>(handle));
  static const uint32_t kMagic = Library().magic;
  return library && library->magic == kMagic ? library : nullptr;
}

Kernel* to_kernel(const void* handle) {
  auto* kernel = static_cast<Kernel*>(const_cast<void*>(handle));
  static const uint32_t kMagic = Kernel().magic;
  return kernel && kernel->magic == kMagic ? kernel : nullptr;
}

Kernel* find_kernel(Library* library, const std::string& name) {
  DeviceLock lock(device_lock());
  auto found = library->kernels.find(name);
  if (found != library->kernels.end()) return found->second;
  return library->any_name ? add_kernel(library, name) : nullptr;
}

Variable* find_variable(Context* context, Library* library, const std::string& name) {
  auto found = library->variables.find(name);
  if (found == library->variables.end()) return nullptr;
  Variable& variable = found->second;
  if (variable.address == nullptr) {
    variable.address =
        allocate(context, variable.managed ? MemoryKind::managed : MemoryKind::device,
                 variable.bytes, 0, nullptr);
    if (variable.address && !variable.initial.empty()) {
      std::memcpy(variable.address, variable.initial.data(), variable.initial.size());
    }
  }
  return &variable;
}

}  // namespace simgpu
