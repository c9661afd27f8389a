// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/target_layout.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace gpuidle::cli {
namespace {

using base::Status;
using base::StatusCode;

// The flag that old C libraries want for calls from the outside of themselves.
constexpr std::uint64_t kInternalOpenFlag = 0x80000000;

constexpr const char* kMallocFamily[] = {
    "malloc",    "free",          "calloc",         "realloc",      "memalign",          "valloc",
    "pvalloc",   "aligned_alloc", "posix_memalign", "cfree",        "malloc_trim",       "mallinfo",
    "mallinfo2", "mallopt",       "malloc_info",    "malloc_stats", "malloc_usable_size"};

// Hold locks of the C library, or the loader's.
constexpr const char* kForbiddenFunctions[] = {"pthread_create",
                                               "pthread_join",
                                               "pthread_exit",
                                               "pthread_detach",
                                               "fork",
                                               "vfork",
                                               "_Fork",
                                               "posix_spawn",
                                               "posix_spawnp",
                                               "system",
                                               "popen",
                                               "dlopen",
                                               "dlmopen",
                                               "dlsym",
                                               "dlvsym",
                                               "dlclose",
                                               "dladdr",
                                               "dladdr1",
                                               "dlinfo",
                                               "dlerror",
                                               "exit",
                                               "__cxa_finalize",
                                               "__cxa_atexit",
                                               "dl_iterate_phdr",
                                               "_dl_addr",
                                               "__libc_fork",
                                               "__cxa_thread_atexit_impl",
                                               "pthread_atfork",
                                               "__register_atfork",
                                               "_dl_catch_exception",
                                               "_dl_catch_error",
                                               "__libc_dlopen_mode"};

bool has_name(const std::string& path, const char* start) {
  return path.compare(path.rfind('/') + 1, std::strlen(start), start) == 0;
}

bool is_libc(const std::string& path) {
  return has_name(path, "libc.so.6") || has_name(path, "libc-2.");
}

bool is_loader(const std::string& path) {
  return has_name(path, "ld-linux-x86-64.so.2") || has_name(path, "ld-2.") ||
         has_name(path, "ld.so");
}

bool is_library(const MappedRange& range) {
  return range.file_offset == 0 && !range.path.empty() && range.path[0] == '/';
}

void add_code(const ProcessFacts& process, const std::string& path, std::vector<CodeRange>* to) {
  for (const MappedRange& range : process.maps) {
    if (range.is_executable && range.path == path) to->push_back({range.begin, range.end});
  }
}

// The malloc family lies together; its inner functions have no names, so everything from the end of
// the symbol before it to its own end counts.
void add_malloc(const std::vector<TargetSymbol>& symbols, std::vector<CodeRange>* to) {
  std::uint64_t lowest = ~0ULL;
  std::uint64_t highest = 0;
  const auto is_malloc = [](const TargetSymbol& symbol) {
    return std::any_of(std::begin(kMallocFamily), std::end(kMallocFamily),
                       [&symbol](const char* name) { return symbol.name == name; });
  };
  for (const TargetSymbol& symbol : symbols) {
    if (!is_malloc(symbol)) continue;
    lowest = std::min(lowest, symbol.begin);
    highest = std::max(highest, symbol.end);
  }
  if (highest == 0) return;
  std::uint64_t before = 0;
  for (const TargetSymbol& symbol : symbols) {
    if (symbol.begin < lowest && symbol.end <= lowest) before = std::max(before, symbol.end);
  }
  to->push_back({before == 0 ? lowest : before, highest});
}

void add_functions(const std::vector<TargetSymbol>& symbols, std::vector<CodeRange>* to) {
  for (const TargetSymbol& symbol : symbols) {
    if (std::any_of(std::begin(kForbiddenFunctions), std::end(kForbiddenFunctions),
                    [&symbol](const char* name) { return symbol.name == name; })) {
      to->push_back({symbol.begin, symbol.end});
    }
  }
}

// First place of `bytes` in the code of `path`, 0 = none.
std::uint64_t find_code(const TargetMemory& memory, const ProcessFacts& process,
                        const std::string& path, const std::string& bytes) {
  std::vector<CodeRange> code;
  add_code(process, path, &code);
  for (const CodeRange& range : code) {
    std::string text(range.end - range.begin, '\0');
    if (!memory.read(range.begin, text.data(), text.size())) continue;
    const std::size_t at = text.find(bytes);
    if (at != std::string::npos) return range.begin + at;
  }
  return 0;
}

void find_opening(const TargetMemory& memory, const ProcessFacts& process,
                  const TargetLibrary& libc, TargetLayout* layout) {
  layout->open_library = libc.address_of("dlopen");
  layout->find_symbol = libc.address_of("dlsym");
  layout->last_error = libc.address_of("dlerror");
  layout->errno_location = libc.address_of("__errno_location");
  if (layout->open_library != 0) return;
  for (const MappedRange& range : process.maps) {  // before glibc 2.34
    if (!is_library(range) || !has_name(range.path, "libdl.so.2")) continue;
    const TargetLibrary libdl(memory, range.begin);
    layout->open_library = libdl.address_of("dlopen");
    layout->find_symbol = libdl.address_of("dlsym");
    layout->last_error = libdl.address_of("dlerror");
    return;
  }
  layout->open_library = libc.address_of("__libc_dlopen_mode");
  layout->find_symbol = libc.address_of("__libc_dlsym");
  layout->open_flags = kInternalOpenFlag;
}

}  // namespace

base::Result<TargetLayout> read_layout(const TargetMemory& memory, const ProcessFacts& process) {
  TargetLayout layout;
  std::string libc_path;
  for (const MappedRange& range : process.maps) {
    if (!is_library(range)) continue;
    const TargetLibrary library(memory, range.begin);
    if (is_libc(range.path) && libc_path.empty()) {
      libc_path = range.path;
      find_opening(memory, process, library, &layout);
      const std::vector<TargetSymbol> symbols = library.all();
      add_malloc(symbols, &layout.forbidden);
      add_functions(symbols, &layout.forbidden);
    } else if (is_loader(range.path)) {
      // r_debug: version, list, address of the breakpoint function, then the state.
      const std::uint64_t debug = library.address_of("_r_debug");
      if (debug != 0) layout.loader_state = debug + 24;
      add_code(process, range.path, &layout.loader);
    } else if (library.defines("malloc")) {
      add_code(process, range.path, &layout.forbidden);
    }
  }
  const std::string label = process.label();
  if (libc_path.empty()) {
    return Status(StatusCode::wrong_format,
                  label + " has no GNU C library mapped, which the recorder needs");
  }
  // mov $15, %rax (rt_sigreturn); syscall
  const std::string returning("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);
  layout.signal_return = find_code(memory, process, libc_path, returning);
  layout.call_instruction = layout.signal_return == 0 ? 0 : layout.signal_return + 7;
  layout.forbidden.insert(layout.forbidden.end(), layout.loader.begin(), layout.loader.end());
  std::sort(layout.forbidden.begin(), layout.forbidden.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.begin < b.begin; });
  if (layout.open_library == 0 || layout.find_symbol == 0 || layout.errno_location == 0 ||
      layout.call_instruction == 0 || layout.loader.empty() || layout.loader_state == 0) {
    return Status(StatusCode::unavailable,
                  "the C library of " + label + " (" + libc_path +
                      ") cannot be read in its memory; start the program with 'gpuidle run'");
  }
  return layout;
}

}  // namespace gpuidle::cli
