// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/record/gate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace gpuidle::record {

std::atomic<std::uint32_t> Gate::always_closed_{0};
Gate g_gate;

bool Gate::place_on_wiped_page() {
  if (word_ != &always_closed_) return true;
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  if (madvise(page, page_bytes, MADV_WIPEONFORK) != 0) {  // Linux < 4.14
    munmap(page, page_bytes);
    return false;
  }
  word_ = new (page) std::atomic<std::uint32_t>(0);
  return true;
}

}  // namespace gpuidle::record
