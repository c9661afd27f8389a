// SPDX-License-Identifier: Apache-2.0
//
// Which libcupti is tried in which order, and which release is refused.
#include "libgpuidle/cupti/cupti_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace gpuidle::cupti {
namespace {

std::ptrdiff_t place_of(const std::vector<std::string>& paths, const std::string& path) {
  const auto at = std::find(paths.begin(), paths.end(), path);
  return at == paths.end() ? -1 : at - paths.begin();
}

}  // namespace

TEST_CASE("the library that the user names is the only one tried", "[cupti][unit]") {
  const MappedCuda mapped{"/x/libcupti.so.12", "/x/libcudart.so.12"};
  CHECK(cupti_candidates("/mine.so", mapped, 13) == std::vector<std::string>{"/mine.so"});
}

TEST_CASE("a mapped CUPTI is the only one tried", "[cupti][unit]") {
  const MappedCuda mapped{"/x/libcupti.so.12", "/x/libcudart.so.12"};
  CHECK(cupti_candidates("", mapped, 13) == std::vector<std::string>{"/x/libcupti.so.12"});
}

TEST_CASE("the neighbours of the mapped runtime come before the loader's path", "[cupti][unit]") {
  const MappedCuda mapped{"", "/venv/nvidia/cuda_runtime/lib/libcudart.so.12"};
  const auto paths = cupti_candidates("", mapped, 12);
  const auto wheel =
      place_of(paths, "/venv/nvidia/cuda_runtime/lib/../../cuda_cupti/lib/libcupti.so.12");
  REQUIRE(wheel >= 0);
  CHECK(wheel < place_of(paths, "libcupti.so.12"));
  CHECK(place_of(paths, "libcupti.so.12") <
        place_of(paths, "/usr/local/cuda/lib64/libcupti.so.12"));
}

TEST_CASE("the runtime's CUDA comes before the driver's, which may be newer", "[cupti][unit]") {
  const auto paths = cupti_candidates("", {"", "/cuda/lib64/libcudart.so.12"}, 13);
  CHECK(place_of(paths, "libcupti.so.12") < place_of(paths, "libcupti.so.13"));
  CHECK(place_of(paths, "libcupti.so.13") < place_of(paths, "libcupti.so.11.8"));
}

TEST_CASE("a library that is newer than the driver is never tried", "[cupti][unit]") {
  for (const std::string& path : cupti_candidates("", {"", "/cuda/lib64/libcudart.so.13"}, 12)) {
    INFO(path);
    CHECK(path.find("libcupti.so.13") == std::string::npos);
  }
  const auto unknown_driver = cupti_candidates("", {}, 0);
  CHECK(place_of(unknown_driver, "libcupti.so.13") >= 0);
}

TEST_CASE("11.x is named with its minor, later ones without", "[cupti][unit]") {
  const auto paths = cupti_candidates("", {}, 11);
  CHECK(paths.front() == "libcupti.so.11.8");
  CHECK(place_of(paths, "libcupti.so.11") == -1);
}

TEST_CASE("version numbers read as the releases that they stand for", "[cupti][unit]") {
  CHECK(cupti_version_text(18) == "11.8 to 12.1");
  CHECK(cupti_version_text(22) == "12.4");
  CHECK(cupti_version_text(130000) == "13.0");
  CHECK(cupti_version_text(130001) == "13.0.1");
  CHECK(cupti_version_text(130500) == "13.5");
  CHECK(cupti_version_text(25) == "of API version 25");
  CHECK(cupti_major(12) == 0);
  CHECK(cupti_major(13) == 11);
  CHECK(cupti_major(18) == 11);
  CHECK(cupti_major(19) == 12);
  CHECK(cupti_major(28) == 12);
  CHECK(cupti_major(140100) == 14);
}

TEST_CASE("releases that harm their process are refused with what to do", "[cupti][unit]") {
  CHECK(why_not_cupti(130000, 13).find("13.0 Update 1") != std::string::npos);
  CHECK(why_not_cupti(12, 0).find("older than 11.0") != std::string::npos);
  CHECK(why_not_cupti(130001, 12).find("driver of CUDA 13") != std::string::npos);
  for (const std::uint32_t version : {13u, 18u, 20u, 28u, 130001u, 130300u}) {
    INFO(version);
    CHECK(why_not_cupti(version, 0).empty());
    CHECK(why_not_cupti(version, 13).empty());
  }
}

}  // namespace gpuidle::cupti
