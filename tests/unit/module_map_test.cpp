// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/module_map.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace gpuidle::stacks {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? path : resolved;
}

// A function of this program, of libc, of the loader and of libstdc++.
std::vector<void*> known_addresses() {
  return {reinterpret_cast<void*>(&real_path), dlsym(RTLD_DEFAULT, "qsort"),
          dlsym(RTLD_DEFAULT, "_dl_find_object"), dlsym(RTLD_DEFAULT, "__cxa_demangle")};
}

TEST_CASE("an address lies in the object that dladdr names", "[stacks][unit]") {
  ModuleMap map;
  map.refresh();
  for (void* address : known_addresses()) {
    if (address == nullptr) continue;  // a C library without _dl_find_object
    Dl_info info{};
    REQUIRE(dladdr(address, &info) != 0);
    const MappedModule* module = map.find(address_of(address));
    REQUIRE(module != nullptr);
    CHECK(real_path(module->path) == real_path(info.dli_fname));
    CHECK(module->begin_address == address_of(info.dli_fbase));
    CHECK(address_of(address) < module->end_address);
  }
}

TEST_CASE("modules are in ascending order and do not overlap", "[stacks][unit]") {
  ModuleMap map;
  map.refresh();
  REQUIRE(map.modules().size() >= 3);
  for (std::size_t i = 1; i < map.modules().size(); ++i) {
    CHECK(map.modules()[i - 1].end_address <= map.modules()[i].begin_address);
  }
}

TEST_CASE("the program goes by its own path and the kernel's object by [vdso]", "[stacks][unit]") {
  ModuleMap map;
  map.refresh();
  const MappedModule* own = map.find(address_of(reinterpret_cast<void*>(&real_path)));
  REQUIRE(own != nullptr);
  CHECK(own->path == real_path("/proc/self/exe"));
  const std::uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
  if (vdso != 0) {
    REQUIRE(map.find(vdso) != nullptr);
    CHECK(map.find(vdso)->path == "[vdso]");
  }
}

TEST_CASE("an address in no object has no module and keeps its raw value", "[stacks][unit]") {
  ModuleMap map;
  map.refresh();
  int on_the_stack = 0;
  for (const std::uint64_t address :
       {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX, address_of(&on_the_stack)}) {
    CHECK(map.find(address) == nullptr);
    model::Tables tables;
    const model::Frame& frame = tables.frames()[map.frame_of(address, tables)];
    CHECK(frame.module == 0);
    CHECK(frame.address == address);
  }
}

TEST_CASE("a frame's address is in the terms of its file", "[stacks][unit]") {
  ModuleMap map;
  map.refresh();
  model::Tables tables;
  void* const function = dlsym(RTLD_DEFAULT, "qsort");
  REQUIRE(function != nullptr);
  const model::FrameId id = map.frame_of(address_of(function), tables);
  CHECK(map.frame_of(address_of(function), tables) == id);
  const model::Frame& frame = tables.frames()[id];
  REQUIRE(frame.module != 0);
  const model::Module& module = tables.modules()[frame.module];
  CHECK(frame.kind == model::Frame::Kind::native);
  CHECK(frame.address + module.load_bias == address_of(function));

  // The file's own symbol table says the same.
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  REQUIRE(dladdr1(function, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                  RTLD_DL_SYMENT) != 0);
  REQUIRE(symbol != nullptr);
  CHECK(frame.address == symbol->st_value);
}

TEST_CASE("a library is in the map from its loading on and not after it went", "[stacks][unit]") {
  ModuleMap map;
  map.refresh();
  const std::size_t before = map.modules().size();
  void* const library = dlopen(MODULE_MAP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  void* const function = dlsym(library, "module_map_marker");
  REQUIRE(function != nullptr);
  CHECK(map.find(address_of(function)) == nullptr);  // no snapshot was taken since
  map.refresh();
  const MappedModule* module = map.find(address_of(function));
  REQUIRE(module != nullptr);
  CHECK(real_path(module->path) == real_path(MODULE_MAP_LIBRARY));
  // Linked with the build id 0123456789abcdef and, before it, a note of the same type by another
  // owner.
  CHECK(module->build_id == std::string("\x01\x23\x45\x67\x89\xab\xcd\xef", 8));
  dlclose(library);
  if (dlopen(MODULE_MAP_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == nullptr) {
    map.refresh();
    CHECK(map.find(address_of(function)) == nullptr);
    CHECK(map.modules().size() == before);
  }
}

}  // namespace
}  // namespace gpuidle::stacks
