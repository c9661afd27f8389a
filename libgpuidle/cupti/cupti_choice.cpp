// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/cupti/cupti_choice.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "libgpuidle/base/loaded_objects.h"

namespace gpuidle::cupti {
namespace {

constexpr int kNewestMajor = 14;
constexpr char kRuntimeStart[] = "libcudart.so";

// The version is a running number up to CUDA 12 and xxyyzz from 13.0 on. Libraries of 12.0 and 12.1
// give that of 11.8.
struct NumberedRelease {
  std::uint32_t number;
  const char* text;
};
constexpr NumberedRelease kNumberedReleases[] = {
    {13, "11.0"},         {14, "11.1"},          {15, "11.2 to 11.4"}, {16, "11.5"},
    {17, "11.6 or 11.7"}, {18, "11.8 to 12.1"},  {20, "12.2"},         {21, "12.3"},
    {22, "12.4"},         {23, "12.5"},          {24, "12.6"},         {26, "12.8"},
    {27, "12.9"},         {28, "12.9 Update 1"},
};
constexpr std::uint32_t kFirstOf11 = 13;
constexpr std::uint32_t kFirstOf12 = 19;
constexpr std::uint32_t kFirstSpelledOut = 130000;

// Releases that are refused: what they do to a process that only records activity, as we do. Bugs
// of calls that are never made here (timestamp callbacks, finalising, hardware tracing) have no
// row.
struct BadRelease {
  std::uint32_t first;
  std::uint32_t last;
  const char* why;
};
constexpr BadRelease kBadReleases[] = {
    {0, kFirstOf11 - 1,
     "is older than 11.0, its records lack what is needed; use CUDA 11 or newer"},
    {130000, 130000,
     "can hang in cuptiActivityDisable and crash in cuptiActivityFlushAll; use 13.0 Update 1 or "
     "newer"},
};

int note_library(dl_phdr_info* info, std::size_t, void* out) {
  auto* mapped = static_cast<MappedCuda*>(out);
  const char* name = info->dlpi_name;
  if (name == nullptr) return 0;
  const char* base = std::strrchr(name, '/');
  base = base == nullptr ? name : base + 1;
  if (std::strncmp(base, "libcupti.so", 11) == 0) mapped->cupti = name;
  if (std::strncmp(base, kRuntimeStart, sizeof(kRuntimeStart) - 1) == 0) mapped->cudart = name;
  return 0;
}

// CUDA major in the runtime's file name; 0 = it has none.
int runtime_major(const std::string& path) {
  const std::size_t at = path.rfind(kRuntimeStart);
  if (at == std::string::npos) return 0;
  const char* number = path.c_str() + at + sizeof(kRuntimeStart) - 1;
  return *number == '.' ? static_cast<int>(std::strtol(number + 1, nullptr, 10)) : 0;
}

// 11.x carries the minor in its SONAME, from 12 on the major alone.
void add_names(int major, std::vector<std::string>* names) {
  if (major >= 12) names->push_back("libcupti.so." + std::to_string(major));
  if (major != 11) return;
  for (int minor = 8; minor >= 0; --minor) {
    names->push_back("libcupti.so.11." + std::to_string(minor));
  }
}

std::vector<std::string> names_in_order(int first_major, int driver_major) {
  const int newest = driver_major == 0 ? kNewestMajor : driver_major;
  std::vector<std::string> names;
  if (first_major <= newest) add_names(first_major, &names);
  for (int major = newest; major >= 11; --major) {
    if (major != first_major) add_names(major, &names);
  }
  return names;
}

}  // namespace

MappedCuda mapped_cuda() {
  MappedCuda mapped;
  base::for_each_loaded_object(&note_library, &mapped);
  return mapped;
}

int mapped_driver_major() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return 0;
  auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) version = 0;
  dlclose(driver);  // gives the reference back; RTLD_NOLOAD took one
  return version / 1000;
}

std::vector<std::string> cupti_candidates(const std::string& requested_path,
                                          const MappedCuda& mapped, int driver_major) {
  if (!requested_path.empty()) return {requested_path};
  if (!mapped.cupti.empty()) return {mapped.cupti};
  const std::vector<std::string> names = names_in_order(runtime_major(mapped.cudart), driver_major);
  std::vector<std::string> paths;
  const std::size_t slash = mapped.cudart.rfind('/');
  if (slash != std::string::npos) {
    const std::string directory = mapped.cudart.substr(0, slash);
    // Toolkit, toolkit's extras, and the two layouts of the PyPI wheels.
    for (const char* neighbour :
         {"", "/../extras/CUPTI/lib64", "/../../cuda_cupti/lib", "/../../cu13/lib"}) {
      for (const std::string& name : names) paths.push_back(directory + neighbour + "/" + name);
    }
  }
  for (const char* place : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/"}) {
    for (const std::string& name : names) paths.push_back(place + name);
  }
  return paths;
}

int cupti_major(std::uint32_t version) {
  if (version >= kFirstSpelledOut) return static_cast<int>(version / 10000);
  if (version >= kFirstOf12) return 12;
  return version >= kFirstOf11 ? 11 : 0;
}

std::string cupti_version_text(std::uint32_t version) {
  if (version >= kFirstSpelledOut) {
    std::string text = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
    if (version % 100 != 0) text += "." + std::to_string(version % 100);
    return text;
  }
  for (const NumberedRelease& release : kNumberedReleases) {
    if (release.number == version) return release.text;
  }
  return "of API version " + std::to_string(version);
}

std::string why_not_cupti(std::uint32_t version, int driver_major) {
  for (const BadRelease& release : kBadReleases) {
    if (version >= release.first && version <= release.last) {
      return "CUPTI " + cupti_version_text(version) + " " + release.why;
    }
  }
  if (driver_major != 0 && cupti_major(version) > driver_major) {
    return "CUPTI " + cupti_version_text(version) + " needs a driver of CUDA " +
           std::to_string(cupti_major(version)) + ", this one is of CUDA " +
           std::to_string(driver_major) + "; install a newer driver or an older CUDA toolkit";
  }
  return {};
}

}  // namespace gpuidle::cupti
