// SPDX-License-Identifier: Apache-2.0
//
// Opens a library that uses the device in the way that it is told to; knows nothing of CUDA itself.
// Fed by life_loading_test.py.
//   life_loading HOW PLUGIN    HOW: plain, deepbind, namespace, again (close, and open once more)
#include <dlfcn.h>

#include <cstdio>
#include <string>

namespace {

constexpr int kSteps = 8;

bool run_in(void* library) {
  if (library == nullptr) {
    std::fprintf(stderr, "life_loading: %s\n", dlerror());
    return false;
  }
  auto* run_plugin = reinterpret_cast<void (*)(int)>(dlsym(library, "run_plugin"));
  if (run_plugin == nullptr) return false;
  run_plugin(kSteps);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: life_loading HOW PLUGIN\n");
    return 2;
  }
  const std::string how = argv[1];
  const char* plugin = argv[2];
  bool ok = false;
  if (how == "plain") ok = run_in(dlopen(plugin, RTLD_NOW | RTLD_LOCAL));
  if (how == "deepbind") ok = run_in(dlopen(plugin, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  if (how == "namespace") ok = run_in(dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW | RTLD_LOCAL));
  if (how == "again") {
    void* library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    ok = run_in(library) && dlclose(library) == 0 && run_in(dlopen(plugin, RTLD_NOW | RTLD_LOCAL));
  }
  std::printf("%s: %s\n", how.c_str(), ok ? "ran" : "did not run");
  return ok ? 3 : 1;
}
