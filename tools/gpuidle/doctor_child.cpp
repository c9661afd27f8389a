// SPDX-License-Identifier: Apache-2.0
//
// What the doctor's child processes do: start the CUDA driver, look for CUPTI, launch one kernel.
// Any of it may crash or hang, which then is an answer too. No CUDA header is used: a dozen
// functions are taken by name, as a program would that has to run without CUDA as well.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "libgpuidle/base/config.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "tools/gpuidle/doctor.h"

namespace gpuidle::cli {
namespace {

// The driver's calls as they are called here; CUresult, CUdevice are ints, handles are pointers.
class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {}

  bool is_open() const { return library_ != nullptr; }
  std::string path() const { return path_of(library_); }

  /// -1 = the driver has no such function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function == nullptr ? -1 : function(arguments...);
  }

  static std::string path_of(void* library) {
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
    return map->l_name;
  }

 private:
  void* library_;
};

void say(const char* key, const std::string& value) {
  std::printf("%s %s\n", key, value.c_str());
  std::fflush(stdout);  // the next step may be the last
}

void say(const char* key, int value) { say(key, std::to_string(value)); }

void describe_device(const Driver& driver, int device) {
  constexpr int kMajorAttribute = 75;
  constexpr int kMinorAttribute = 76;
  std::array<char, 128> name{};
  int major = 0;
  int minor = 0;
  std::size_t bytes = 0;
  driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size() - 1), device);
  driver.call("cuDeviceGetAttribute", &major, kMajorAttribute, device);
  driver.call("cuDeviceGetAttribute", &minor, kMinorAttribute, device);
  driver.call("cuDeviceTotalMem_v2", &bytes, device);
  say("capability", major * 10 + minor);
  say("device", std::string(name.data()) + ", compute capability " + std::to_string(major) + "." +
                    std::to_string(minor) + ", " + std::to_string(bytes >> 20) + " MiB");
}

// Without a driver, CUPTI 13.2 crashes when it is asked for its version.
int look_for_cupti(int driver_major, bool has_driver) {
  std::vector<std::string> warnings;
  const base::Config config = base::Config::from_environment(&warnings);
  for (const std::string& path :
       cupti::cupti_candidates(config.cupti_library, cupti::mapped_cuda(), driver_major)) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) continue;
    say("cupti", Driver::path_of(library));
    if (!has_driver) return 0;
    auto* get_version =
        reinterpret_cast<int (*)(std::uint32_t*)>(dlsym(library, "cuptiGetVersion"));
    std::uint32_t version = 0;
    if (get_version == nullptr || get_version(&version) != 0) return 0;
    say("cupti_version", static_cast<int>(version));
    return 0;
  }
  return 0;
}

int ask_about_driver() {
  const Driver driver;
  if (!driver.is_open()) {
    say("no_library", dlerror());
    return look_for_cupti(0, false);
  }
  say("library", driver.path());
  int version = 0;
  if (driver.call("cuDriverGetVersion", &version) == 0) say("cuda_version", version);
  const int init_result = driver.call("cuInit", 0u);
  say("cuinit", init_result);
  int count = 0;
  if (driver.call("cuDeviceGetCount", &count) != 0) count = 0;
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if (driver.call("cuDeviceGet", &device, i) == 0) describe_device(driver, device);
  }
  return look_for_cupti(version / 1000, init_result == 0);
}

// One kernel that does nothing, compiled by the driver.
int launch_one_kernel() {
  constexpr char kPtx[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry gpuidle_doctor_kernel()\n{\n  ret;\n}\n";
  const Driver driver;
  if (!driver.is_open()) return 1;
  int device = 0;
  void* context = nullptr;
  void* module = nullptr;
  void* kernel = nullptr;
  const auto step = [](const char* name, int result) {
    if (result != 0)
      say("failed", std::string(name) + " failed with CUDA error " + std::to_string(result));
    return result == 0;
  };
  const bool has_run =
      step("cuInit", driver.call("cuInit", 0u)) &&
      step("cuDeviceGet", driver.call("cuDeviceGet", &device, 0)) &&
      step("cuDevicePrimaryCtxRetain", driver.call("cuDevicePrimaryCtxRetain", &context, device)) &&
      step("cuCtxSetCurrent", driver.call("cuCtxSetCurrent", context)) &&
      step("cuModuleLoadData",
           driver.call("cuModuleLoadData", &module, static_cast<const void*>(kPtx))) &&
      step("cuModuleGetFunction", driver.call("cuModuleGetFunction", &kernel, module,
                                              static_cast<const char*>("gpuidle_doctor_kernel"))) &&
      step("cuLaunchKernel", driver.call("cuLaunchKernel", kernel, 1u, 1u, 1u, 1u, 1u, 1u, 0u,
                                         static_cast<void*>(nullptr), static_cast<void**>(nullptr),
                                         static_cast<void**>(nullptr))) &&
      step("cuCtxSynchronize", driver.call("cuCtxSynchronize"));
  if (has_run) say("launched", 1);
  return has_run ? 0 : 1;
}

}  // namespace

int doctor_child(const std::string& name) {
  return name == "launch" ? launch_one_kernel() : ask_about_driver();
}

}  // namespace gpuidle::cli
