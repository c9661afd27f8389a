// SPDX-License-Identifier: Apache-2.0
//
// A program that notices whatever an attach does to it. Uses CUDA once, then works until SIGTERM
// and says whether everything was as it should be: "ok" or what was not.
//   attach_program alloc      four threads allocate and check what they wrote
//   attach_program vectors    vector registers, flags and errno in a loop that calls nothing
//   attach_program loader     libraries are opened and closed, exceptions thrown, threads started
//   attach_program blocked    waits in calls that return early if a stop is not hidden from them
//   attach_program strict     in strict seccomp mode, in which most calls end a program
#include <cuda.h>
#include <dlfcn.h>
#include <immintrin.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> g_is_over{false};
std::atomic<long> g_faults{0};
std::atomic<long> g_rounds{0};

void on_term(int) { g_is_over = true; }

void allocate_and_check(unsigned seed) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks(64, {nullptr, 0});
  while (!g_is_over) {
    seed = seed * 1664525 + 1013904223;
    auto& [block, size] = blocks[(seed >> 8) % blocks.size()];
    for (std::size_t i = 0; i < size; i += 61) {
      if (block[i] != static_cast<unsigned char>(size + i)) ++g_faults;
    }
    std::free(block);
    size = 16 + (seed >> 10) % 200'000;
    block = static_cast<unsigned char*>(std::malloc(size));
    if (block == nullptr) std::abort();
    for (std::size_t i = 0; i < size; i += 61) block[i] = static_cast<unsigned char>(size + i);
    ++g_rounds;
  }
  for (auto& [block, size] : blocks) std::free(block);
}

// 16 registers with known contents, looked at again after a loop of a few ms in which nothing but
// an interruption could change them.
__attribute__((target("avx"))) void check_vectors() {
  alignas(32) unsigned char before[8][32];
  alignas(32) unsigned char after[8][32];
  for (int i = 0; i < 8; ++i) std::memset(before[i], 0x11 * (i + 1), 32);
  while (!g_is_over) {
    errno = ERANGE;
    long count = 2'000'000;
    asm volatile(
        "vmovdqa 0(%[from]), %%ymm0\n vmovdqa 32(%[from]), %%ymm1\n"
        "vmovdqa 64(%[from]), %%ymm2\n vmovdqa 96(%[from]), %%ymm3\n"
        "vmovdqa 128(%[from]), %%ymm12\n vmovdqa 160(%[from]), %%ymm13\n"
        "vmovdqa 192(%[from]), %%ymm14\n vmovdqa 224(%[from]), %%ymm15\n"
        "1: dec %[count]\n jnz 1b\n"
        "vmovdqa %%ymm0, 0(%[to])\n vmovdqa %%ymm1, 32(%[to])\n"
        "vmovdqa %%ymm2, 64(%[to])\n vmovdqa %%ymm3, 96(%[to])\n"
        "vmovdqa %%ymm12, 128(%[to])\n vmovdqa %%ymm13, 160(%[to])\n"
        "vmovdqa %%ymm14, 192(%[to])\n vmovdqa %%ymm15, 224(%[to])\n"
        : [count] "+r"(count)
        : [from] "r"(&before[0][0]), [to] "r"(&after[0][0])
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm12", "xmm13", "xmm14", "xmm15");
    if (errno != ERANGE) ++g_faults;
    if (std::memcmp(before, after, sizeof(before)) != 0 || count != 0) ++g_faults;
    ++g_rounds;
  }
}

void storm_the_loader() {
  while (!g_is_over) {
    void* library = dlopen("libutil.so.1", RTLD_NOW);
    if (library != nullptr) dlclose(library);
    try {
      throw std::runtime_error("thrown");
    } catch (const std::exception&) {
    }
    std::thread([] {}).join();
    ++g_rounds;
  }
}

// EINTR without a signal of its own is what a program must never see.
void wait_in_calls() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::thread reader([&] {
    char byte = 0;
    ssize_t got = 0;
    errno = ERANGE;  // only a call that fails may change it
    while ((got = read(ends[0], &byte, 1)) == 1) ++g_rounds;
    if (got != 0 || errno != ERANGE) ++g_faults;
  });
  pollfd nothing{ends[1], 0, 0};
  while (!g_is_over) {
    if (poll(&nothing, 1, 50) < 0 && !g_is_over) ++g_faults;
    if (write(ends[1], "x", 1) != 1) ++g_faults;
  }
  close(ends[1]);
  reader.join();
}

[[noreturn]] void be_strict() {
  std::printf("ready\n");
  std::fflush(stdout);
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  char byte = 0;
  for (;;) {
    if (read(ends[0], &byte, 1) < 0) syscall(SYS_exit, 1);
  }
}

void use_cuda() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) {
    std::fprintf(stderr, "attach_program: no CUDA\n");
    std::exit(9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "";
  struct sigaction action {};
  action.sa_handler = on_term;
  action.sa_flags = SA_RESTART;  // what is counted is EINTR without a signal
  sigaction(SIGTERM, &action, nullptr);
  use_cuda();
  if (mode == "strict") be_strict();
  std::vector<std::thread> threads;
  std::function<void()> own_work = [] {};
  if (mode == "alloc") {
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(allocate_and_check, i + 1);
  } else if (mode == "vectors") {
    own_work = check_vectors;  // no other thread: one that waits would be borrowed instead
  } else if (mode == "loader") {
    for (int i = 0; i < 3; ++i) threads.emplace_back(storm_the_loader);
  } else if (mode == "blocked") {
    threads.emplace_back(wait_in_calls);
  } else {
    std::fprintf(stderr, "usage: attach_program alloc|vectors|loader|blocked|strict\n");
    return 2;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  own_work();
  for (std::thread& thread : threads) thread.join();
  if (g_rounds == 0) std::printf("nothing was done\n");
  std::printf(g_faults == 0 ? "ok\n" : "%ld faults\n", g_faults.load());
  return g_faults == 0 && g_rounds != 0 ? 0 : 1;
}
