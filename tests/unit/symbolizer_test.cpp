// SPDX-License-Identifier: Apache-2.0
//
// Naming of frames, checked against what the dynamic linker (dladdr) and the compiler (__LINE__)
// say about this very process, and against object files that are stripped, exchanged or damaged.
#include "libgpuidle/symbols/symbolizer.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "libgpuidle/symbols/elf_file.h"
#include "libgpuidle/symbols/symbol_index.h"
#include "libgpuidle/symbols/symbol_module.h"

namespace gpuidle::symbols {
namespace {

using model::Frame;
using model::FrameId;
using model::Tables;

// Its return address lies in the caller, on the caller's line.
[[gnu::noinline]] std::uint64_t return_address() {
  return reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
}

struct LoadedModule {
  std::uint64_t address = 0;  // looked for
  model::Module module;
  std::string path;
};

int match_module(dl_phdr_info* info, std::size_t, void* target) {
  auto& wanted = *static_cast<LoadedModule*>(target);
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    begin = std::min(begin, info->dlpi_addr + segment.p_vaddr);
    end = std::max(end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (wanted.address < begin || wanted.address >= end) return 0;
  wanted.module.load_bias = info->dlpi_addr;
  wanted.module.begin_address = begin;
  wanted.module.end_address = end;
  wanted.path = info->dlpi_name[0] != '\0'
                    ? info->dlpi_name
                    : std::filesystem::read_symlink("/proc/self/exe").string();
  return 1;
}

std::string build_id_of(const std::string& path) {
  base::Result<ElfFile> file = ElfFile::open(path);
  REQUIRE(file.ok());
  return file.value().read_build_id();
}

// Adds a frame for a run-time return address of this process, as the recorder would.
FrameId add_frame(Tables& tables, std::uint64_t address) {
  LoadedModule loaded;
  loaded.address = address;
  REQUIRE(dl_iterate_phdr(match_module, &loaded) == 1);
  loaded.module.path = tables.intern(loaded.path);
  loaded.module.build_id = build_id_of(loaded.path);
  Frame frame;
  frame.kind = Frame::Kind::native;
  frame.module = tables.intern(loaded.module);
  frame.address = address - loaded.module.load_bias;
  return tables.intern(frame);
}

// The fixture as a module that was loaded at address 0, so that addresses are the file's own.
struct Fixture {
  std::uint64_t exported = 0;
  std::uint64_t local = 0;
  std::string build_id;
  std::string path = SYMBOLS_FIXTURE;

  Fixture() {
    void* const handle = dlopen(SYMBOLS_FIXTURE, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != nullptr);
    void* const function = dlsym(handle, "fixture_exported");
    using GetLocal = void* (*)();
    const auto get_local = reinterpret_cast<GetLocal>(dlsym(handle, "fixture_local_address"));
    Dl_info info{};
    REQUIRE(dladdr(function, &info) != 0);
    const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
    exported = reinterpret_cast<std::uint64_t>(function) - base;
    local = reinterpret_cast<std::uint64_t>(get_local()) - base;
    build_id = build_id_of(path);
  }

  FrameId add_frame(Tables& tables, const std::string& file, const std::string& id,
                    std::uint64_t address) const {
    model::Module module;
    module.path = tables.intern(file);
    module.build_id = id;
    module.end_address = 0x100000;
    Frame frame;
    frame.kind = Frame::Kind::native;
    frame.module = tables.intern(module);
    frame.address = address;
    return tables.intern(frame);
  }
};

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/gpuidle-symbols-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  REQUIRE(file.good());
}

TEST_CASE("a return address of this program gets its function, file and line", "[symbols][unit]") {
  Tables tables;
  const std::uint64_t address = return_address();
  const std::uint32_t line = __LINE__ - 1;
  const FrameId frame = add_frame(tables, address);
  Symbolizer symbolizer(tables);
  const ResolvedFrame& resolved = symbolizer.resolve(frame);
  CHECK(resolved.function.find("gpuidle::symbols::") == 0);
  CHECK(resolved.is_exact);
  CHECK(resolved.line == line);
  CHECK(std::filesystem::path(resolved.file).filename() == "symbolizer_test.cpp");
  CHECK(resolved.module == std::filesystem::read_symlink("/proc/self/exe").string());
  CHECK(&symbolizer.resolve(frame) == &resolved);
}

TEST_CASE("names of libc functions agree with the dynamic linker's", "[symbols][unit]") {
  for (const char* name : {"qsort", "malloc", "strtol", "getenv", "dl_iterate_phdr", "fopen"}) {
    CAPTURE(name);
    // From libc's own table: a sanitizer may have put its interceptor in front of the function.
    void* const libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void* const function = libc != nullptr ? dlsym(libc, name) : nullptr;
    REQUIRE(function != nullptr);
    Dl_info info{};
    REQUIRE(dladdr(function, &info) != 0);
    Tables tables;
    const FrameId frame = add_frame(tables, reinterpret_cast<std::uint64_t>(function) + 1);
    Symbolizer symbolizer(tables);
    const ResolvedFrame& resolved = symbolizer.resolve(frame);
    REQUIRE(info.dli_sname != nullptr);
    // Several names may share the address, and dladdr may prefer another one of them.
    CHECK((resolved.function == info.dli_sname ||
           dlsym(libc, resolved.function.c_str()) == function));
  }
}

TEST_CASE("a local function is named from .symtab and found nowhere in a stripped file",
          "[symbols][unit]") {
  const Fixture fixture;
  Tables tables;
  const std::string stripped = SYMBOLS_FIXTURE_DIR "/symbols_fixture_stripped.so";
  const FrameId whole =
      fixture.add_frame(tables, fixture.path, fixture.build_id, fixture.local + 1);
  const FrameId bare = fixture.add_frame(tables, stripped, fixture.build_id, fixture.local + 1);
  const FrameId exported =
      fixture.add_frame(tables, stripped, fixture.build_id, fixture.exported + 1);
  Symbolizer symbolizer(tables, "/nonexistent");
  CHECK(symbolizer.resolve(whole).function == "fixture::local_step");
  CHECK(symbolizer.resolve(whole).is_exact);
  CHECK(symbolizer.resolve(whole).line > 0);

  char offset[64];
  std::snprintf(offset, sizeof(offset), "symbols_fixture_stripped.so+0x%llx",
                static_cast<unsigned long long>(fixture.local + 1));
  CHECK(symbolizer.resolve(bare).function == offset);
  CHECK_FALSE(symbolizer.resolve(bare).is_exact);
  CHECK(symbolizer.resolve(bare).line == 0);
  CHECK(symbolizer.resolve(exported).function == "fixture_exported");
}

TEST_CASE("a function is named without its parameters", "[symbols][unit]") {
  const Fixture fixture;
  void* const handle = dlopen(SYMBOLS_FIXTURE, RTLD_NOW | RTLD_LOCAL);
  void* const function = dlsym(handle, "_ZNK7fixture8CallableclEPFviEi");
  REQUIRE(function != nullptr);
  Dl_info info{};
  REQUIRE(dladdr(function, &info) != 0);
  SymbolModule module(fixture.path, fixture.build_id, "/nonexistent");
  const auto name = module.name_of(reinterpret_cast<std::uint64_t>(function) -
                                   reinterpret_cast<std::uint64_t>(info.dli_fbase));
  REQUIRE(name);
  CHECK(name->function == "fixture::Callable::operator()");
}

TEST_CASE("a separate debug file with the same build id names a stripped module",
          "[symbols][unit]") {
  const Fixture fixture;
  const TemporaryDirectory directory;
  std::string hex;
  for (const char byte : fixture.build_id) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    hex += digits;
  }
  const std::string folder = directory / ".build-id/" + hex.substr(0, 2);
  std::filesystem::create_directories(folder);
  write_file(folder + "/" + hex.substr(2) + ".debug",
             content_of(SYMBOLS_FIXTURE_DIR "/symbols_fixture.debug"));
  Tables tables;
  const FrameId frame =
      fixture.add_frame(tables, SYMBOLS_FIXTURE_DIR "/symbols_fixture_stripped.so",
                        fixture.build_id, fixture.local + 1);
  Symbolizer symbolizer(tables, directory / "");
  CHECK(symbolizer.resolve(frame).function == "fixture::local_step");
  CHECK(std::filesystem::path(symbolizer.resolve(frame).file).filename() == "symbols_fixture.cpp");
}

TEST_CASE("a file with another build id names nothing and is reported", "[symbols][unit]") {
  const Fixture fixture;
  Tables tables;
  std::string other_id = fixture.build_id;
  other_id[0] = static_cast<char>(other_id[0] ^ 1);
  const FrameId frame = fixture.add_frame(tables, fixture.path, other_id, fixture.exported + 1);
  Symbolizer symbolizer(tables, "/nonexistent");
  CHECK(symbolizer.resolve(frame).function.find("+0x") != std::string::npos);
  CHECK_FALSE(symbolizer.resolve(frame).is_exact);
  REQUIRE(symbolizer.warnings().size() == 1);
  CHECK(symbolizer.warnings()[0].find("is not the file that was recorded") != std::string::npos);
}

TEST_CASE("paths that name no readable object file give offsets and one warning each",
          "[symbols][unit]") {
  const Fixture fixture;
  const TemporaryDirectory directory;
  const std::string fifo = directory / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  write_file(directory / "text",
             "not an object file, but long enough to hold an ELF header, easily");
  for (const std::string& path : {std::string("/nonexistent/lib.so"), std::string("/tmp"),
                                  std::string("/dev/zero"), fifo, directory / "text"}) {
    CAPTURE(path);
    Tables tables;
    const FrameId frame = fixture.add_frame(tables, path, fixture.build_id, 0x1234);
    Symbolizer symbolizer(tables);
    CHECK(symbolizer.resolve(frame).function ==
          std::filesystem::path(path).filename().string() + "+0x1234");
    CHECK(symbolizer.warnings().size() == 1);
  }
}

TEST_CASE("frames without a module, Python frames and unknown ids are told as they are",
          "[symbols][unit]") {
  Tables tables;
  Frame raw;
  raw.kind = Frame::Kind::native;
  raw.address = 0x7f00deadbeef;
  Frame python;
  python.kind = Frame::Kind::python;
  python.function = tables.intern("next_batch");
  python.file = tables.intern("/srv/train.py");
  python.line = 42;
  const FrameId raw_id = tables.intern(raw);
  const FrameId python_id = tables.intern(python);
  Symbolizer symbolizer(tables);
  CHECK(symbolizer.resolve(raw_id).function == "0x7f00deadbeef");
  CHECK_FALSE(symbolizer.resolve(raw_id).is_exact);
  CHECK(symbolizer.resolve(python_id).function == "next_batch");
  CHECK(symbolizer.resolve(python_id).file == "/srv/train.py");
  CHECK(symbolizer.resolve(python_id).line == 42);
  CHECK(symbolizer.resolve(python_id).is_exact);
  CHECK_FALSE(symbolizer.resolve(4711).function.empty());
  CHECK(symbolizer.warnings().empty());
}

TEST_CASE("truncated at any length, an object file names nothing wrong and crashes nothing",
          "[symbols][unit]") {
  const Fixture fixture;
  const TemporaryDirectory directory;
  const std::string whole = content_of(fixture.path);
  const std::string path = directory / "truncated.so";
  std::size_t named_count = 0;
  for (std::size_t length = 0; length < whole.size(); length += 37) {
    write_file(path, whole.substr(0, length));
    SymbolModule module(path, fixture.build_id, "/nonexistent");
    const auto name = module.name_of(fixture.local);
    module.place_of(fixture.local);
    if (!name) continue;
    ++named_count;
    CHECK(name->function == "fixture::local_step");
  }
  // The section headers lie at the end of the file, so a shorter one has no symbol table to read.
  CHECK(named_count == 0);
}

TEST_CASE("flipped bytes in an object file crash nothing", "[symbols][unit]") {
  const Fixture fixture;
  const TemporaryDirectory directory;
  const std::string whole = content_of(fixture.path);
  const std::string path = directory / "damaged.so";
  std::mt19937 random(20240607);
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof(header));
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    // Half of the rounds hit the headers, where the offsets and sizes are.
    const bool is_header = round % 2 == 0;
    const std::size_t flips = 1 + random() % 4;
    for (std::size_t i = 0; i < flips; ++i) {
      const std::size_t at = is_header ? header.e_shoff + random() % (whole.size() - header.e_shoff)
                                       : random() % whole.size();
      damaged[at] = static_cast<char>(random());
    }
    write_file(path, damaged);
    SymbolModule module(path, fixture.build_id, "/nonexistent");
    module.name_of(fixture.local);
    module.place_of(fixture.local);
    module.place_of(fixture.exported);
  }
  SUCCEED("3000 damaged files read");
}

TEST_CASE("the symbol index prefers the innermost range and never invents a name",
          "[symbols][unit]") {
  SymbolIndex index;
  index.add(0x100, 0x100, SymbolRank::global, "outer");
  index.add(0x140, 0x10, SymbolRank::local, "inner");
  index.add(0x300, 0, SymbolRank::local, "label");
  index.add(0x400, 0x10, SymbolRank::local, "__private_alias");
  index.add(0x400, 0x10, SymbolRank::global, "public_name");
  index.add(UINT64_MAX - 1, 0x10, SymbolRank::global, "wraps_around");
  index.seal();
  CHECK(index.find(0x0ff).name.empty());
  CHECK(index.find(0x100).name == "outer");
  CHECK(index.find(0x145).name == "inner");
  CHECK(index.find(0x150).name == "outer");
  CHECK(index.find(0x1ff).is_exact);
  CHECK(index.find(0x200).name.empty());
  CHECK(index.find(0x310).name == "label");
  CHECK_FALSE(index.find(0x310).is_exact);
  CHECK(index.find(0x405).name == "public_name");
  CHECK(index.find(0x410).name.empty());
  CHECK(index.find(UINT64_MAX).name.empty());
}

}  // namespace
}  // namespace gpuidle::symbols
